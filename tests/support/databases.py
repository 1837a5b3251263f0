"""Databases that one test takes after another: emptied, with the sessions in which the server has its plans.

A copy of the template costs 35 ms of the processor, and each session takes as much again to read the catalogs and to
compile functions. A database is used again only if nothing of the test before can be seen in it.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import asyncpg

from shared.db.connections import STATEMENT_SECONDS, connect, prepare
from shared.db.database import Address
from shared.db.hosts import URL, Host
from shared.db.roles import APP_ROLE
from tests.support.source_tree import ROOT

# After so many tests what they have deleted makes the tables slow; a table of so many bytes is slow at once.
MOST_TESTS, MOST_BYTES = 60, 2**20
# Of each kind; more than that are not kept.
MOST_SESSIONS = 8
CLOSE_SECONDS = 10.0
STATEMENTS = (ROOT / "tests/support/databases.sql").read_text("utf-8").split("\n\n")
CATALOG, TABLES, SEQUENCES, OTHERS, LAST_VALUES, ENDING = STATEMENTS
DELETION = "d{0} AS (DELETE FROM {1})"
FILLING = "INSERT INTO {0} OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::{0}, $1)"
# The user, and how many seconds a statement may take.
Key = tuple[str, float]
Place = tuple[Key, int]


class Session:
    """A connection until it is closed: then another test may have the session."""

    def __init__(self, sessions: "Sessions", place: Place, connection: asyncpg.Connection, *, codecs: set[str]) -> None:
        self._sessions, self._place, self._connection, self._codecs = sessions, place, connection, codecs
        # A connection that has broken off does not know it any more.
        self._pid = connection.get_server_pid()
        self._is_closed = False

    def __getattr__(self, name: str) -> Any:
        """Return what the connection has."""
        if self._is_closed:
            raise asyncpg.InterfaceError("connection is closed")
        return getattr(self._connection, name)

    def is_closed(self) -> bool:
        """Return whether it is closed."""
        return self._is_closed or self._connection.is_closed()

    def terminate(self) -> None:
        """End the session."""
        self._is_closed = True
        self._sessions.ended.add(self._pid)
        self._connection.terminate()

    async def set_type_codec(self, name: str, **options: Any) -> None:
        """Set how values are read, once: SQLAlchemy does it each time, and all plans are forgotten then."""
        if name not in self._codecs:
            await self._connection.set_type_codec(name, **options)
            self._codecs.add(name)

    async def remove_listener(self, *args: Any) -> None:
        """Remove a listener; one that is closed has none."""
        if not self._is_closed:
            await self._connection.remove_listener(*args)

    async def close(self, *, timeout: float = CLOSE_SECONDS) -> None:  # noqa: ASYNC109  # as asyncpg has it
        """Give the session back."""
        if self._is_closed:
            return
        self._is_closed = True
        self._sessions.ended.add(self._pid)
        await self._sessions.take_back(self._place, self._connection, self._codecs, seconds=timeout)


class Sessions:
    """The sessions of a database that no test has, by user and limit."""

    def __init__(self, url: URL) -> None:
        self.url, self._process, self._loop = url, os.getpid(), asyncio.get_running_loop()
        # By the place in the order in which a test opened them, for the next one opens them in the same order: what a
        # session has planned it needs again. With the types for which they have codecs.
        self._idle: dict[Key, dict[int, tuple[asyncpg.Connection, set[str]]]] = {}
        self._counts = Counter[Key]()
        # The processes of the server that a test has left; they may not have noticed it yet.
        self.ended = set[int]()
        self._is_open = True

    @property
    def is_here(self) -> bool:
        """Return whether the caller can use them: not another process, nor another loop."""
        return self._is_open and self._process == os.getpid() and self._loop is asyncio.get_running_loop()

    @property
    def pids(self) -> list[int]:
        """Return the processes of the server."""
        return [connection.get_server_pid() for connection in self._list_idle() if not connection.is_closed()]

    async def open(self, arguments: dict[str, object], setup: str, seconds: float) -> Session:
        """Return a session that is set up; raises what `connect` does."""
        key = (str(arguments["user"]), seconds)
        idle, self._counts[key] = self._idle.setdefault(key, {}), self._counts[key] + 1
        place = self._counts[key]
        if place in idle:
            connection, codecs = idle.pop(place)
            # Also where who opens it is cancelled.
            with ExitStack() as closing, suppress(OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError):
                closing.callback(connection.terminate)
                await prepare(connection, setup.replace("DEALLOCATE ALL;", ""))
                closing.pop_all()
                return Session(self, (key, place), connection, codecs=codecs)
        return Session(self, (key, place), await connect(arguments, setup, seconds), codecs=set())

    def begin_again(self) -> None:
        """Begin a test."""
        self._counts.clear()
        self.ended.clear()

    async def take_back(
        self, place: Place, connection: asyncpg.Connection, codecs: set[str], *, seconds: float
    ) -> None:
        """Keep a session, if it can be used again, else end it."""
        is_usable = not (connection.is_closed() or connection.is_in_transaction())
        if not (self.is_here and is_usable) or place[1] > MOST_SESSIONS:
            await connection.close(timeout=seconds)
            return
        with ExitStack() as closing:
            closing.callback(connection.terminate)
            await connection.reset(timeout=seconds)
            closing.pop_all()
        self._idle[place[0]][place[1]] = (connection, codecs)
        self.ended.discard(connection.get_server_pid())

    async def close(self) -> None:
        """End all."""
        self._is_open = False
        for connection in self._list_idle():
            connection.terminate()

    def _list_idle(self) -> list[asyncpg.Connection]:
        return [connection for idle in self._idle.values() for connection, _ in idle.values()]


class SharedAddress(Address, frozen=True):
    """The address of a database whose sessions are used again."""

    sessions: Sessions | None = None

    def opener(
        self, *, as_owner: bool = False, role: str = APP_ROLE, statement_seconds: float = STATEMENT_SECONDS
    ) -> Callable[[Host | None], Awaitable[asyncpg.Connection]]:
        """Return what opens a connection, in a session that is there if there is one."""
        open_other = Address.opener(self, as_owner=as_owner, role=role, statement_seconds=statement_seconds)
        arguments = self.asyncpg_arguments(as_owner=as_owner, role=role)
        setup = self.setup(as_owner=as_owner, role=role, statement_seconds=statement_seconds)

        async def open_one(host: Host | None) -> Any:
            sessions = self.sessions
            if host is not None or sessions is None or sessions.url != self.url or not sessions.is_here:
                return await open_other(host)
            return await sessions.open(arguments, setup, statement_seconds)

        return open_one


@dataclass
class TestDatabase:
    """A copy of the template, with what it was like when it was new."""

    __test__ = False
    url: URL
    owner: asyncpg.Connection
    sessions: Sessions
    # The transaction that it begins with.
    beginning: str
    catalog: list[Any]
    emptying: str
    # With the rows of the template, as JSON.
    fillings: dict[str, str]
    last_values: str
    count: int = 0

    @property
    def address(self) -> Address:
        """Return an address of it, with nothing that an earlier one has seen."""
        return SharedAddress(self.url, is_embedded=True, sessions=self.sessions)

    async def empty(self, *, ends_others: bool = False) -> bool:
        """Make it as it was; return False when something can't be told or undone, or others are connected."""
        self.count += 1
        # A test may have ended all sessions.
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            pids = [*self.sessions.pids, await self.owner.fetchval("SELECT pg_backend_pid()")]
            if self.sessions.ended or ends_others:
                await self.owner.execute(ENDING, pids, None if ends_others else list(self.sessions.ended))
            async with self.owner.transaction():
                is_other = await self.owner.fetchval(OTHERS, pids, MOST_BYTES)
                if is_other or self.catalog != await self.owner.fetch(CATALOG, self.beginning):
                    return False
                # A statement that is prepared: to plan it takes ten times as long as to run it.
                await self.owner.fetch(self.emptying)
                for filling, rows in self.fillings.items():
                    await self.owner.fetch(filling, rows)
                await self.owner.fetch(SEQUENCES, self.last_values)
            return self.count < MOST_TESTS
        return False


class Databases:
    """The databases of a server that no test has, copies of one template."""

    def __init__(
        self,
        postgres: URL,
        superuser: asyncpg.Connection,
        template: str = "template_parley",
        *,
        has_processes: bool = False,
    ) -> None:
        self._postgres, self._superuser, self._idle = postgres, superuser, list[TestDatabase]()
        # With those of a test, which have ended, it does not wait until the server has noticed that.
        self._template, self._has_processes = template, has_processes
        # Of the connection, for a test may have several databases at once.
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Address]:
        """Have a database for the block that is as the template."""
        database = self._idle.pop() if self._idle else await self._make()
        database.sessions.begin_again()
        is_empty = False
        try:
            yield database.address
            is_empty = await database.empty(ends_others=self._has_processes)
        finally:
            if is_empty:
                self._idle.append(database)
            else:
                await self._drop(database)

    async def close(self) -> None:
        """Drop all."""
        for database in self._idle:
            await self._drop(database)

    async def _make(self) -> TestDatabase:
        name = f"test_{uuid4().hex}"
        async with self._lock:
            await self._superuser.execute(f"CREATE DATABASE {name} TEMPLATE {self._template} STRATEGY FILE_COPY")
        url = self._postgres.set(database=name)
        owner = await Address(url, is_embedded=True).connect(as_owner=True, statement_seconds=30)
        await owner.execute("SET session_replication_role = replica; SET lock_timeout = '1s'")
        beginning = await owner.fetchval("SELECT pg_current_xact_id()::text")
        names = [row["name"] for row in await owner.fetch(TABLES)]
        deletions = ", ".join(DELETION.format(number, table) for number, table in enumerate(names))
        fillings = {
            FILLING.format(table): rows
            for table in names
            if (rows := await owner.fetchval(f"SELECT json_agg(t) FROM {table} AS t"))  # noqa: S608  # names of ours
        }
        return TestDatabase(
            url=url,
            owner=owner,
            sessions=Sessions(url),
            beginning=beginning,
            catalog=await owner.fetch(CATALOG, beginning),
            emptying=f"WITH {deletions} SELECT",
            fillings=fillings,
            last_values=await owner.fetchval(LAST_VALUES),
        )

    async def _drop(self, database: TestDatabase) -> None:
        await database.sessions.close()
        database.owner.terminate()
        async with self._lock:
            await self._superuser.execute(f"DROP DATABASE {database.url.database} WITH (FORCE)")
