"""Messages that were written while no process listened, read from the channels' history."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import discord

from adapters.base import isolated
from adapters.chat.checkpoint import oldest_missed
from adapters.discord.events.listening import DirectChannels
from adapters.discord.transport.rest import TRY_SECONDS, Refused, as_our_errors, in_background
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App

PAGE = 100
# How many channels are read at the same time; a long history does not delay the other channels.
READERS = 4
FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0

Written = discord.TextChannel | discord.VoiceChannel | discord.StageChannel

log = get_logger()


class CatchUp:
    """Reads the missed messages of all channels and accepts them, oldest first in each channel."""

    def __init__(
        self,
        app: "App",
        client: discord.AutoShardedClient,
        directs: DirectChannels,
        *,
        accept: Callable[[discord.Message], Awaitable[None]],
    ) -> None:
        self._app, self._client, self._directs, self._accept = app, client, directs, accept
        self._readers = asyncio.Semaphore(READERS)

    async def run(self, since: int, server: discord.Guild | None = None) -> None:
        """Accept every message after this id, or those of one server; returns when all is read to its end.

        A channel whose history can't be read now is tried again until it can be read or Discord refuses it.
        """
        after = max(since, discord.utils.time_snowflake(oldest_missed(self._app)))
        if server is None:
            channels = [*self._list_channels(self._client.guilds, after), *await self._list_direct()]
        else:
            channels = self._list_channels([server], after)
        counts = await asyncio.gather(*(self._read(each, after) for each in channels))
        if count := sum(counts):
            log.info("caught_up", platform="discord", messages=count)

    def _list_channels(self, guilds: Sequence[discord.Guild], after: int) -> list[discord.abc.Messageable]:
        found: list[discord.abc.Messageable] = []
        for guild in guilds:
            written_in: list[Written] = [*guild.text_channels, *guild.voice_channels, *guild.stage_channels]
            found += [each for each in (*written_in, *guild.threads) if (each.last_message_id or 0) > after]
        return found

    async def _list_direct(self) -> list[discord.abc.Messageable]:
        # Direct messages arrive on the first shard.
        if 0 not in (self._client.shard_ids or (0,)):
            return []
        kind = discord.ChannelType.private
        return [self._client.get_partial_messageable(each, type=kind) for each in await self._directs.list_recent()]

    async def _read(self, channel: discord.abc.Messageable, after: int) -> int:
        """Accept the messages of one channel page by page; return how many there were."""
        count, wait = 0, FIRST_WAIT
        while True:
            try:
                page = await self._accept_page(channel, after)
            except Refused as error:
                log.warning("discord_channel_not_read", channel=_id_of(channel), cause=str(error))
                return count
            except Unavailable as error:
                log.warning("discord_channel_not_read", channel=_id_of(channel), cause=str(error), again_in=wait)
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, wait * 2)
                continue
            count, wait = count + len(page), FIRST_WAIT
            if len(page) < PAGE:
                return count
            after = page[-1].id

    async def _accept_page(self, channel: discord.abc.Messageable, after: int) -> list[discord.Message]:
        async def read() -> list[discord.Message]:
            history = channel.history(limit=PAGE, after=discord.Object(after), oldest_first=True)
            async with asyncio.timeout(TRY_SECONDS):
                return [each async for each in history]

        async with self._readers:
            with in_background():
                page = await as_our_errors(read())
            for message in page:
                await isolated(self._accept(message), "missed_message_not_accepted", message=message.id)
        return page


def _id_of(channel: object) -> int:
    return int(getattr(channel, "id", 0))
