"""After a stop: what was written meanwhile is read, and what was for the agent is answered."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import discord
from sqlalchemy import text

from shared.errors import EventTaken
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
Take = Callable[[discord.Message], Awaitable[None]]


async def catch_up(app: "App", client: discord.AutoShardedClient, since: int, take: Take) -> int:
    """Take what was written after this message, oldest first in each channel; return how many messages were read."""
    oldest = app.clock.now() - timedelta(hours=app.settings.catch_up_hours)
    after = discord.Object(max(since, discord.utils.time_snowflake(oldest)))
    count = 0
    async for channel in _channels(app, client, after.id):
        count += await _read(channel, after, take)
    if count:
        log.info("discord_caught_up", messages=count)
    return count


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


async def _read(channel: Any, after: discord.Object, take: Take) -> int:
    count = 0
    try:
        async for message in channel.history(after=after, limit=MOST_MESSAGES, oldest_first=True):
            await _with_member(message)
            await take(message)
            count += 1
    except discord.HTTPException as error:
        log.warning("discord_channel_not_read", channel=channel.id, cause=str(error))
    except EventTaken:
        log.info("discord_message_taken_elsewhere", channel=channel.id)
    return count


async def _with_member(message: discord.Message) -> None:
    # What is fetched names the account only; the roles are the member's.
    if message.guild is None or message.author.bot or not isinstance(message.author, discord.User):
        return
    try:
        message.author = await message.guild.fetch_member(message.author.id)
    except discord.HTTPException:
        # Who has left meanwhile has no roles any more.
        return
