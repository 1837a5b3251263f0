"""Messages that were written while no process listened, read from the channels' history."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import discord

from adapters.base import isolated
from adapters.chat.checkpoint import oldest_missed
from adapters.discord.events.listening import FIRST_WAIT, LONGEST_WAIT, DirectChannels
from adapters.discord.transport.rest import TRY_SECONDS, RateLimiter, Refused, as_our_errors
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App

PAGE = 100
# How many channels are read at the same time; a long history does not delay the other channels.
READERS = 4

Written = discord.TextChannel | discord.VoiceChannel | discord.StageChannel
Channel = Written | discord.Thread | discord.PartialMessageable

log = get_logger()


class CatchUp:
    """Reads the missed messages of all channels and accepts them, oldest first in each channel."""

    def __init__(
        self,
        app: "App",
        client: discord.AutoShardedClient,
        directs: DirectChannels,
        *,
        rate_limiter: RateLimiter,
        locked: Callable[[int], asyncio.Lock],
        accept: Callable[[discord.Message], Awaitable[None]],
    ) -> None:
        self._app, self._client, self._directs = app, client, directs
        self._rate_limiter, self._locked, self._accept = rate_limiter, locked, accept
        self._readers = asyncio.Semaphore(READERS)

    async def run(self, since: int, servers: Iterable[discord.Guild], *, has_directs: bool) -> None:
        """Accept every message of these servers after this id; returns when all is read to its end.

        A channel whose history can't be read now is tried again until it can be read or Discord refuses it.
        """
        after = max(since, discord.utils.time_snowflake(oldest_missed(self._app)))
        channels: list[Channel] = []
        for guild in servers:
            written_in: list[Written] = [*guild.text_channels, *guild.voice_channels, *guild.stage_channels]
            channels += [thread for thread in (*written_in, *guild.threads) if (thread.last_message_id or 0) > after]
        # Direct messages arrive on the first shard.
        if has_directs and 0 in (self._client.shard_ids or (0,)):
            kind = discord.ChannelType.private
            channels += [
                self._client.get_partial_messageable(channel_id, type=kind)
                for channel_id in await self._directs.list_recent()
            ]
        counts = await asyncio.gather(*(self._read(channel, after) for channel in channels))
        if count := sum(counts):
            log.info("caught_up", platform="discord", messages=count)

    async def _read(self, channel: Channel, after: int) -> int:
        """Accept the messages of one channel page by page; return how many there were."""
        count, wait = 0, FIRST_WAIT
        while True:
            try:
                page = await self._accept_page(channel, after)
            except Refused as error:
                log.warning("discord_channel_not_read", channel=channel.id, cause=str(error))
                return count
            except Unavailable as error:
                log.warning("discord_channel_not_read", channel=channel.id, cause=str(error), again_in=wait)
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, wait * 2)
                continue
            count, wait = count + len(page), FIRST_WAIT
            if len(page) < PAGE:
                return count
            after = max(page)

    async def _accept_page(self, channel: Channel, after: int) -> list[int]:
        async def read() -> list[Any]:
            async with asyncio.timeout(TRY_SECONDS):
                await self._rate_limiter.wait_for_lull()
                return await self._client.http.logs_from(channel.id, PAGE, after=after)

        async def accept(payload: Any) -> None:
            # The library's own loop, `history()`, ends at the first message that it can't read, and names none behind
            # it; nothing else that is public makes a message of a payload.
            await self._accept(self._client._connection.create_message(channel=channel, data=payload))

        # What is written meanwhile waits for what was written before.
        async with self._locked(channel.id), self._readers:
            page = {int(payload["id"]): payload for payload in await as_our_errors(read())}
            for message_id in sorted(page):
                await isolated(accept(page[message_id]), "missed_message_not_accepted", message=message_id)
        return list(page)
