"""The members behind messages from the history, which names only their accounts; roles belong to the member."""

import asyncio

import discord
from cachetools import FIFOCache

from adapters.discord.transport.rest import RateLimiter, Refused, insist
from shared.errors import Unavailable

MOST_REMEMBERED = 10_000
# A lookup is given up after the first number of seconds, and after one that failed, after the second.
LOOKUP_SECONDS, SECONDS_AFTER_FAILURE = 5.0, 1.0


class Members:
    """The members that were looked up, each once until `forget`; one that could not be looked up has no known roles."""

    def __init__(self, rate_limiter: RateLimiter) -> None:
        self._rate_limiter = rate_limiter
        # A lookup serves all channels that are read at the same time.
        self._lookups: FIFOCache[tuple[int, int], asyncio.Task[discord.Member | None]] = FIFOCache(MOST_REMEMBERED)
        self._seconds = LOOKUP_SECONDS

    async def complete(self, message: discord.Message) -> None:
        """Replace the author of a server message by the member, as far as Discord names one."""
        guild, author = message.guild, message.author
        if guild is None or not isinstance(author, discord.User):
            return
        key = (guild.id, author.id)
        if key not in self._lookups:
            self._lookups[key] = asyncio.create_task(self._find(guild, author.id), name="member")
        message.author = await self._lookups[key] or author

    async def _find(self, guild: discord.Guild, user_id: int) -> discord.Member | None:
        async def fetch() -> discord.Member:
            await self._rate_limiter.wait_for_lull()
            return await guild.fetch_member(user_id)

        member = None
        try:
            member = await insist(fetch, self._seconds)
        except Refused:
            # A person who has left the server has no roles.
            pass
        except Unavailable:
            # Each of many messages would wait as long, and those of other channels behind them.
            self._seconds = SECONDS_AFTER_FAILURE
            return None
        self._seconds = LOOKUP_SECONDS
        return member

    def forget(self) -> None:
        """Look everybody up again the next time, because roles change."""
        self._lookups.clear()
