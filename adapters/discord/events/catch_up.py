"""Messages that were written while no process listened, read from the channels' history."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import discord
from sqlalchemy import text

from adapters.chat.checkpoint import oldest_missed
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App

MOST_MESSAGES = 500
MOST_DIRECT = 50

DIRECT = text("""
SELECT platform_channel_id FROM conversations
WHERE platform = 'discord' AND is_direct AND last_active_at > now() - interval '30 days'
ORDER BY last_active_at DESC LIMIT :most
""")

log = get_logger()


async def list_missed(app: "App", client: discord.AutoShardedClient, since: int) -> AsyncIterator[discord.Message]:
    """Yield the messages after this id, oldest first in each channel."""
    after = discord.Object(max(since, discord.utils.time_snowflake(oldest_missed(app))))
    async for channel in _channels(app, client, after.id):
        async for message in _read(channel, after):
            yield message


async def _channels(app: "App", client: discord.AutoShardedClient, after: int) -> AsyncIterator[Any]:
    for guild in client.guilds:
        channels: list[discord.TextChannel | discord.Thread] = [*guild.text_channels, *guild.threads]
        for channel in channels:
            if (channel.last_message_id or 0) > after:
                yield channel
    if 0 not in (client.shard_ids or (0,)):
        return
    async with app.database.statement() as session:
        rows = (await session.execute(DIRECT, {"most": MOST_DIRECT})).all()
    for row in rows:
        try:
            yield await client.fetch_channel(int(row.platform_channel_id))
        except discord.HTTPException:
            continue


async def _read(channel: Any, after: discord.Object) -> AsyncIterator[discord.Message]:
    try:
        async for message in channel.history(after=after, limit=MOST_MESSAGES, oldest_first=True):
            await _with_member(message)
            yield message
    except discord.HTTPException as error:
        log.warning("discord_channel_not_read", channel=channel.id, cause=str(error))


async def _with_member(message: discord.Message) -> None:
    # A message from the history has the account only; roles belong to the member.
    if message.guild is None or message.author.bot or not isinstance(message.author, discord.User):
        return
    try:
        message.author = await message.guild.fetch_member(message.author.id)
    except discord.HTTPException:
        # A person who has left the server has no roles.
        return
