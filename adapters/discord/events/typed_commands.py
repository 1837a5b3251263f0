"""Commands that are typed as messages."""

from functools import partial
from typing import TYPE_CHECKING

import discord

from adapters.base import STORE_SECONDS
from adapters.chat.command_replies import keep
from adapters.discord.events.incoming import PLATFORM, to_incoming
from adapters.discord.sending.command_reply import to_bodies
from adapters.discord.sending.reply import ChannelWriter, command_nonce
from adapters.discord.transport.rest import UPLOAD_SECONDS, Refused, Rest, insist
from agent import commands
from agent.queue.inbox import accept_answered
from shared.db.database import retry_on_lost_db
from shared.errors import Unavailable
from shared.log import get_logger
from shared.messages import Place
from shared.text import clean

if TYPE_CHECKING:
    from agent.app import App

log = get_logger()


async def answer_typed(app: "App", rest: Rest, message: discord.Message, me: int) -> bool:
    """Answer a typed command and return whether it was one; a private answer is sent as a direct message.

    It is done once, also when the next holder of the shard, or a catch-up, reads the message again.
    """
    incoming = to_incoming(message, me)
    if commands.COMMAND_LINE.fullmatch(clean(incoming.content).strip()) is None:
        return False
    if not await accept_answered(app.database, incoming):
        return True
    place, context = incoming.place, incoming.platform_context
    reply = await retry_on_lost_db(
        lambda: commands.answer(app, incoming.sender, place, text=incoming.content, platform_context=context),
        STORE_SECONDS,
    )
    if reply is None:
        return False
    try:
        channel = message.channel
        if reply.is_private and not place.is_direct:
            channel = await insist(message.author.create_dm)
        writer = ChannelWriter(rest, Place(PLATFORM, None, str(channel.id)), None)
        for index, (body, files) in enumerate(await to_bodies(app, reply, str(message.author.id))):
            write = partial(writer.write, body, f"{command_nonce(str(message.id))}-{index}", files)
            await insist(write, try_seconds=UPLOAD_SECONDS if files else None)
    except Refused as error:
        log.warning("command_not_answered", cause=str(error))
    except Unavailable as error:
        await keep(app, place, asker=str(message.author.id), reply=reply, message_id=str(message.id), error=error)
    return True
