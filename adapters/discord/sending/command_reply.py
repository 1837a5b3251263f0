"""The reply to a command as messages: the last one has the buttons and the files."""

from typing import TYPE_CHECKING

from adapters.chat.command_replies import buttons_of
from adapters.chat.parts import collect
from adapters.discord.sending.reply import Bodies, render, to_messages, to_rows
from adapters.discord.sending.uploads import DEFAULT_BYTES
from agent.commands import CommandReply

if TYPE_CHECKING:
    from agent.app import App


async def to_bodies(app: "App", reply: CommandReply, asker: str) -> Bodies:
    """Return the messages of a reply; files that are too large for any server are links."""
    uploads, others = await collect(app, reply.files, DEFAULT_BYTES)
    text = "\n".join([reply.text, *(f"{other.filename}: <{other.url}>" for other in others)])
    rows = to_rows(buttons_of(reply, asker, app.clock.now()))
    return to_messages(render(text, may_attach=False).parts, uploads, rows)
