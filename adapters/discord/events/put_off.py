"""Messages of servers whose cell is away: they are read from the history when it is back.

So neither do they wait in memory, nor does the catch-up of others wait for them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import discord

from adapters.base import FIRST_WAIT, Running
from adapters.chat.addressing import Rules
from adapters.discord.events.incoming import PLATFORM
from adapters.discord.events.listening import Checkpoint
from shared.db.database import DatabaseLost
from shared.errors import ServerMoved
from shared.log import get_logger
from shared.messages import Place

log = get_logger()


class PutOff:
    """The servers whose messages could not be stored. `rules`: by what is set for a server it is seen that it is back.

    `read` stores the messages after an id, which it releases then.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        running: Running,
        rules: Rules,
        *,
        read: Callable[[int, discord.Guild], Awaitable[None]],
    ) -> None:
        self._checkpoint, self._running, self._rules, self._read = checkpoint, running, rules, read
        # By server: the id after which its messages are to be read, which the checkpoint does not pass.
        self._since: dict[int, int] = {}
        self._reading: set[int] = set()

    async def store(self, message: discord.Message, server: discord.Guild, work: Callable[[], Awaitable[None]]) -> None:
        """Store a message by `work`, or put it off, with all that follow it, while the database is lost."""
        if server.id not in self._since:
            try:
                await work()
                return
            except DatabaseLost as error:
                log.warning("discord_server_waits", server=server.id, cause=str(error.__cause__ or error))
        since, before = message.id - 1, self._since.get(server.id)
        if before is None or since < before:
            self._since[server.id] = self._checkpoint.hold(since)
            self._checkpoint.release(before or 0)
        if server.id not in self._reading:
            self._reading.add(server.id)
            self._running.start(self._read_later(server), "put off messages")

    async def _read_later(self, server: discord.Guild) -> None:
        try:
            while server.id in self._since:
                await asyncio.sleep(FIRST_WAIT)
                with suppress(DatabaseLost, ServerMoved):
                    await self._rules.find(Place(PLATFORM, str(server.id), ""))
                    # One that can't be stored all the same puts itself off again.
                    await self._read(self._since.pop(server.id), server)
        finally:
            self._reading.discard(server.id)
