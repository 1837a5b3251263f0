"""Looks, while a process runs, whether the pooler before the server is still what the start has verified.

A pooler keeps its clients when its configuration is loaded again. From session mode to transaction mode, their
statements go to each other's sessions from then on: with another role, and to statements that others have prepared
under the same names. And it may lead to a server that was left behind, when another was promoted.
"""

from weakref import WeakKeyDictionary

import asyncpg

from shared.db.connections import OF_A_POOLER, POOLED, REMEDIES, ReadOnlyDatabase, UnfitDatabase
from shared.db.errors import is_read_only, sqlstate_of
from shared.db.history import read_history
from shared.db.pooling.pool import Pool

SESSION = "SELECT pg_catalog.pg_backend_pid()"
SHARED = "the session changes between statements"
APART = (
    "The pooler of DATABASE_URL leads to another server than DATABASE_DIRECT_URL ({cause}); let both lead to the one "
    "that was promoted last."
)
NO_WRITES, OTHER_HISTORY = "its server takes no writes", "timeline {theirs}, not {ours}"
OTHER_DATABASE = "another database, another cluster, or a server that was promoted beside it"
# How long the pool's server may take to tell its history.
LOOK_SECONDS = 4.0
FAILURES = (asyncpg.PostgresError, OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, UnfitDatabase)


class Watch:
    """Looks at the connection that listens and at one of the pool's.

    `fault` is what the last look has found, with the remedy, until a later one finds nothing. With `is_shared` the
    pool's connections may share their sessions, and have to lead to the server of the other one.
    """

    def __init__(self, setting: str, pool: Pool, *, is_shared: bool) -> None:
        self.fault: UnfitDatabase | None = None
        self._setting = setting
        self._pool = pool
        self._is_shared = is_shared
        self._pids = WeakKeyDictionary[asyncpg.Connection, int]()

    async def look(self, listening: asyncpg.Connection) -> None:
        """Look again; raises `fault` if there is one."""
        try:
            has_own = not await self._is_changing(listening)
            cause = await self._find_difference(listening) if self._is_shared else None
        except FAILURES as error:
            has_own = sqlstate_of(error) not in OF_A_POOLER
            cause = NO_WRITES if self._is_shared and is_read_only(error) else None
            if has_own and cause is None:
                # The database or the pooler is away, which says nothing of this.
                return
        self.fault = None
        if not has_own:
            remedy = REMEDIES[self._setting]
            self.fault = UnfitDatabase(POOLED.format(setting=self._setting, cause=SHARED, remedy=remedy))
        elif cause is not None:
            self.fault = UnfitDatabase(APART.format(cause=cause))
        if self.fault is not None:
            self._pool.renew()
            raise self.fault

    async def _is_changing(self, listening: asyncpg.Connection) -> bool:
        if await listening.fetchval(SESSION) == listening.get_server_pid():
            # No pooler, which tells its clients a number of its own.
            return False
        # A pooler gives the next statement the session that was used last, whosever it was, or in turn another one.
        if await self._has_changed(listening) or await self._has_changed(listening):
            return True
        if self._is_shared:
            return False
        async with self._pool.member() as member:
            if await self._has_changed(member.driver) or self._pids[member.driver] == self._pids[listening]:
                return True
            async with listening.transaction():
                return await self._has_changed(listening) or await self._has_changed(member.driver)

    async def _has_changed(self, connection: asyncpg.Connection) -> bool:
        pid: int = await connection.fetchval(SESSION)
        return self._pids.setdefault(connection, pid) != pid

    async def _find_difference(self, listening: asyncpg.Connection) -> str | None:
        here = await read_history(listening, LOOK_SECONDS)
        if here is None:
            return None
        async with self._pool.member() as member:
            try:
                async with member.driver.transaction(in_any_history=True):
                    there = await read_history(member.driver, LOOK_SECONDS)
            except ReadOnlyDatabase:
                return NO_WRITES
        if there is not None and there[0] == here[0]:
            return None
        if there is None or there[0].system != here[0].system or there[0].timeline == here[0].timeline:
            return OTHER_DATABASE
        return OTHER_HISTORY.format(theirs=there[0].timeline, ours=here[0].timeline)
