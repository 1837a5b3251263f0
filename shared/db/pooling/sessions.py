"""Whether the sessions of a process are its own, where a pooler stands before the server.

A pooler keeps its clients when its configuration is loaded again. From session mode to transaction mode, their
statements go to each other's sessions from then on: with another role, and to statements that others have prepared
under the same names.
"""

from weakref import WeakKeyDictionary

import asyncpg

from shared.db.connections import OF_A_POOLER, POOLED, REMEDIES, UnfitDatabase
from shared.db.errors import REFUSED, sqlstate_of
from shared.db.pooling.pool import Pool

SESSION = "SELECT pg_catalog.pg_backend_pid()"
CAUSE = "the session changes between statements"
FAILURES = (*REFUSED, OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, UnfitDatabase)


class Sessions:
    """Looks now and then whether a pooler has begun to share the sessions of this process.

    What a look has found holds until a later one finds nothing. Without `pool`, whose connections may share theirs, the
    connection that listens is looked at alone.
    """

    def __init__(self, setting: str, pool: Pool | None) -> None:
        self._refusal: UnfitDatabase | None = None
        self._setting = setting
        self._pool = pool
        self._pids = WeakKeyDictionary[asyncpg.Connection, int]()

    def refuse(self) -> None:
        """Raise `UnfitDatabase` with the remedy if the last look has found that sessions are shared."""
        if self._refusal is not None:
            raise self._refusal

    async def look(self, listening: asyncpg.Connection) -> None:
        """Look at the session of the connection that listens, and at one of the pool's; raises `UnfitDatabase`."""
        try:
            is_shared = await self._is_shared(listening)
        except FAILURES as error:
            if sqlstate_of(error) not in OF_A_POOLER:
                # The database or the pool is away, which says nothing of the sessions.
                return
            is_shared = True
        self._refusal = None
        if is_shared:
            if self._pool is not None:
                self._pool.renew()
            remedy = REMEDIES[self._setting]
            self._refusal = UnfitDatabase(POOLED.format(setting=self._setting, cause=CAUSE, remedy=remedy))
            self.refuse()

    async def _is_shared(self, listening: asyncpg.Connection) -> bool:
        if await listening.fetchval(SESSION) == listening.get_server_pid():
            # No pooler, which tells its clients a number of its own.
            return False
        # A pooler gives the next statement the session that was used last, whosever it was, or in turn another one.
        if await self._has_changed(listening) or await self._has_changed(listening):
            return True
        if self._pool is None:
            return False
        async with self._pool.member() as member:
            if await self._has_changed(member.driver) or self._pids[member.driver] == self._pids[listening]:
                return True
            async with listening.transaction():
                return await self._has_changed(listening) or await self._has_changed(member.driver)

    async def _has_changed(self, connection: asyncpg.Connection) -> bool:
        pid: int = await connection.fetchval(SESSION)
        return self._pids.setdefault(connection, pid) != pid
