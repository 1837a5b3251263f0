"""The reply to a command as messages: the last one has the buttons and the files."""

from functools import partial
from typing import TYPE_CHECKING

import discord

from adapters.chat.buttons import buttons_of
from adapters.chat.parts import collect
from adapters.discord.events.incoming import PLATFORM
from adapters.discord.sending.reply import Bodies, ChannelWriter, command_nonce, render, to_messages, to_rows
from adapters.discord.sending.uploads import DEFAULT_BYTES
from adapters.discord.transport.rest import UPLOAD_SECONDS, Rest, insist
from agent.commands import CommandReply
from shared.messages import Place

if TYPE_CHECKING:
    from agent.app import App


async def to_bodies(app: "App", reply: CommandReply, asker: str) -> Bodies:
    """Return the messages of a reply; files that are too large for any server are links."""
    uploads, others = await collect(app, reply.files, DEFAULT_BYTES)
    text = "\n".join([reply.text, *(f"{other.filename}: <{other.url}>" for other in others)])
    rows = to_rows(buttons_of(reply, asker, app.clock.now()))
    return to_messages(render(text, may_attach=False).parts, uploads, rows)


async def post_reply(app: "App", rest: Rest, message: discord.Message, reply: CommandReply) -> None:
    """Post the reply to a typed command; a private one is a direct message."""
    channel = await insist(message.author.create_dm) if reply.is_private else message.channel
    writer = ChannelWriter(rest, Place(PLATFORM, None, str(channel.id)), None)
    for index, (body, files) in enumerate(await to_bodies(app, reply, str(message.author.id))):
        write = partial(writer.write, body, f"{command_nonce(str(message.id))}-{index}", files)
        await insist(write, try_seconds=UPLOAD_SECONDS if files else None)
