"""Notifies the other processes: by NOTIFY, in transactions that do nothing else, or by a bus beside the database.

Postgres lets one transaction that notifies commit at a time, and the next one waits until it is flushed to the disk: a
few hundred commits a second for all machines together. A transaction that only notifies writes nothing and is not
flushed. So nothing that is written on a turn's path notifies: what happened is told afterwards, by one statement for
all that happened meanwhile. A note that is lost with its process is made up for by those who look at the tables now and
then.
"""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

import asyncpg

from agent.live.channels import DUE, JOBS, TURNS, to_list_key
from shared.db.database import DatabaseLost
from shared.db.driver import Connection
from shared.db.errors import server_errors
from shared.db.single import SessionSource
from shared.db.statements import load_statements
from shared.messages import Place

statements = load_statements(__file__)

PAUSE_SECONDS, CLOSE_SECONDS = 0.005, 2.0
# A session that is silent for longer may be lost, which it takes 10 s to be sure of; notes go by the pool meanwhile.
NOTIFY_SECONDS = 3.0


class JobClaim(Protocol):
    """What a worker asks a statement for that takes jobs."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `parley_take_jobs`."""
        ...

    @property
    def jobs(self) -> Sequence[Any]:
        """Return the jobs that it got."""
        ...

    def fill(self, rows: Iterable[Any], stored_at: datetime | None = None) -> None:
        """Say which jobs it got; `stored_at`: when the messages of those with a `place` were stored."""
        ...


class JobTaker(Protocol):
    """The worker of this process."""

    @property
    def worker_id(self) -> int | None:
        """Return its id, None while it has none."""
        ...

    @property
    def is_near(self) -> bool:
        """Return whether it should take the jobs of this process: it can begin them soon, or is the only worker."""
        ...

    def claim(self) -> AbstractAsyncContextManager[JobClaim | None]:
        """Let the block take jobs by a statement of its own, which start after it; None: not now."""
        ...

    def wake(self) -> None:
        """Look for jobs now."""
        ...


# A channel, and what is told there.
Note = tuple[str, str]


class HearingSession:
    """The session of the database that hears notes, while there is one; it runs one statement at a time."""

    def __init__(self) -> None:
        self.connection: asyncpg.Connection | None = None
        self.in_turn = asyncio.Lock()
        self._overdue: asyncio.Task[bool] | None = None

    async def notify(self, parameters: dict[str, Any]) -> bool:
        """Send notes; return False if it can't now."""
        if self._overdue is not None and not self._overdue.done():
            return False
        sending = asyncio.create_task(self._notify(parameters), name="notify")
        await asyncio.wait({sending}, timeout=NOTIFY_SECONDS)
        if not sending.done():
            # Not cancelled, which would end the session: the server may only be slow.
            self._overdue = sending
            return False
        return sending.result()

    async def _notify(self, parameters: dict[str, Any]) -> bool:
        async with self.in_turn:
            if self.connection is None:
                return False
            try:
                await Connection(self.connection).execute(statements.notify, parameters)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                return False
            return True


class Hearer(Protocol):
    """Hears the notes of others."""

    session: HearingSession

    def receive(self, channel: str, note: str) -> None:
        """Act on a note."""
        ...

    def look_again(self) -> None:
        """Look at the tables: notes may have been missed."""
        ...


class Bus(Protocol):
    """What carries notes to the other processes."""

    @property
    def is_connected(self) -> bool | None:
        """Return whether it carries them now; None where there is none but the database."""
        ...

    async def start(self, hearer: Hearer) -> None:
        """Tell it the notes of others, and when some may have been missed."""
        ...

    def join(self) -> None:
        """Let this process be told of jobs: it has a worker."""
        ...

    async def carry(self, notes: Sequence[Note]) -> None:
        """Send notes in their order; raises `DatabaseLost`, and then they may be lost."""
        ...

    async def close(self) -> None:
        """Leave it."""
        ...


class DatabaseBus:
    """Carries notes by NOTIFY, which the hearer's session hears, whatever else carries notes.

    What readers wait for goes by that session, too: the connections of the pool are in use while turns begin.
    """

    is_connected = None

    def __init__(self, database: SessionSource) -> None:
        self._database = database
        self._session = HearingSession()

    async def start(self, hearer: Hearer) -> None:
        """Use its session."""
        self._session = hearer.session

    def join(self) -> None:
        """Do nothing: of a job, the statement tells one of the workers in the table."""

    async def carry(self, notes: Sequence[Note]) -> None:
        """Send notes by one statement."""
        channels, texts = map(list, zip(*notes, strict=True))
        parameters = {"channels": channels, "notes": texts, "jobs": JOBS}
        # Jobs are told of in their turn for a connection: while all are in use, all workers are busy, too.
        if JOBS in channels or not await self._session.notify(parameters):
            async with self._database.statement() as session:
                await session.execute(statements.notify, parameters)

    async def close(self) -> None:
        """Do nothing."""


class Lane:
    """Sends notes one after the other; those that arrive while others are being sent, or just after, go together."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._notes: dict[Note, None] = {}
        self._sending: asyncio.Task[None] | None = None

    def send(self, note: Note) -> None:
        """Send a note, after those that were sent before."""
        self._notes[note] = None
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="notes")

    async def close(self) -> None:
        """Send what is left, unless it is not taken within two seconds."""
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=CLOSE_SECONDS)
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self) -> None:
        while self._notes:
            notes = list(self._notes)
            self._notes.clear()
            try:
                await self._bus.carry(notes)
            except DatabaseLost:
                pass
            except server_errors():
                pass
            await asyncio.sleep(PAUSE_SECONDS)


class Notifier:
    """Sends the notes of this process: of turns and jobs by the bus, all others by the database."""

    def __init__(self, database: SessionSource, bus: Bus | None = None) -> None:
        self._by_database = DatabaseBus(database)
        self.bus: Bus = bus or self._by_database
        # Notes of turns stand behind none of jobs, which wait for a connection of the pool; questions for readers stand
        # behind neither, because on silence a turn is stopped.
        self._lanes = {TURNS: Lane(self.bus), JOBS: Lane(self.bus)}
        self._others = Lane(self._by_database)
        self._jobs = itertools.count()
        self.workers: list[JobTaker] = []

    async def start(self, hearer: Hearer) -> None:
        """Let the hearer be told the notes of others."""
        await self._by_database.start(hearer)
        if self.bus is not self._by_database:
            await self.bus.start(hearer)

    def tell_list(self, place: Place) -> None:
        """Tell all windows of a chat's person that it was answered, or that a model has named it."""
        self.send(DUE, to_list_key(place))

    def send(self, channel: str, note: str) -> None:
        """Send a note to all who listen to the channel, after those that were sent there before."""
        self._lanes.get(channel, self._others).send((channel, note))

    def announce_job(self) -> None:
        """Tell one worker that there is a job: that of this process while it has little to do, otherwise any one."""
        worker = self.find_near()
        return worker.wake() if worker is not None else self.send(JOBS, str(next(self._jobs)))

    def add_worker(self, worker: JobTaker) -> None:
        """Wake this worker of this process when there are jobs."""
        self.workers.append(worker)
        self.bus.join()

    def find_near(self) -> JobTaker | None:
        """Return the worker that should take the jobs of this process, None while any one may."""
        return next((worker for worker in self.workers if worker.is_near), None)

    async def close(self) -> None:
        """Send what is left, and leave the bus."""
        await asyncio.gather(*(lane.close() for lane in (*self._lanes.values(), self._others)))
        await self.bus.close()
