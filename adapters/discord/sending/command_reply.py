"""The reply to a command as messages: the last one has the buttons and the files."""

from typing import TYPE_CHECKING

from adapters.chat.buttons import buttons_of
from adapters.chat.delivery import key_of
from adapters.chat.parts import collect
from adapters.discord.sending.reply import Bodies, Sender, render, to_messages, to_nonce, to_rows
from adapters.discord.sending.uploads import DEFAULT_BYTES
from adapters.discord.transport.rest import Rest
from agent.commands import CommandReply
from agent.queue.outbox import Reply

if TYPE_CHECKING:
    from agent.app import App


async def to_bodies(app: "App", reply: CommandReply, asker: str) -> Bodies:
    """Return the messages of a reply; files that are too large for any server are links."""
    uploads, others = await collect(app, reply.files, DEFAULT_BYTES)
    text = "\n".join([reply.text, *(f"{other.filename}: <{other.url}>" for other in others)])
    rows = to_rows(buttons_of(reply, asker, app.clock.now()))
    return to_messages(render(text, may_attach=False).parts, uploads, rows)


async def post_reply(app: "App", rest: Rest, reply: Reply) -> None:
    """Post the reply to a typed command; a private one is a direct message."""
    nonce = to_nonce(key_of(app.secrets, reply))
    await Sender(app, rest).post(await reply.in_direct(rest.open_direct), nonce)
