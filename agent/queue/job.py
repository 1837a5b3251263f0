"""The job that runs the next turn of a place, the slots of a worker, and the messages that the turn answers."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent.journal.steps import TurnKey
from agent.people.billing.budget import PaidCall
from shared.messages import IncomingMessage
from shared.text import had_credential

# At most so many messages of a person are answered by one turn.
MAX_COALESCED = 50
GRACE_SECONDS = 20.0
# For what a lost connection, or a process that died, did not tell.
POLL_SECONDS, HELD_SECONDS = 0.25, 2.0
# What was read for a turn is read again when the turn begins later: an admin's change counts for the next message.
FRESH_SECONDS = 0.5


class Slot(Struct, eq=False):
    """The slot of one job. Without `running` it is unlimited, as for the turns of delegated tasks.

    A turn leaves its slot while it waits for something else than a model. It gets one again within `return_seconds`,
    or goes on without one.
    """

    running: asyncio.Semaphore | None = None
    return_seconds: float = 0.0
    is_held: bool = False

    async def enter(self) -> None:
        """Wait for a free slot, unless this job holds one; go on without one when none becomes free in time."""
        if self.running is None or self.is_held:
            return
        # Not for ever: the jobs that hold the slots may themselves wait until this one ends, as suspects do.
        with suppress(TimeoutError):
            async with asyncio.timeout(self.return_seconds):
                await self.running.acquire()
                self.is_held = True

    @asynccontextmanager
    async def released(self) -> AsyncIterator[None]:
        """Leave the slot for the block, and wait for one after it; not after an exception, which ends the turn."""
        if self.running is not None and self.is_held:
            self.is_held = False
            self.running.release()
        yield
        await self.enter()


class Bounds(Struct, frozen=True):
    """How many turns one worker has in work at once.

    `running` counts those that hold a slot. `per_person` and `per_server` also count those that have released their
    slot while they wait for something else than a model, such as a budget or a download. A turn that comes back from
    such a wait gets a slot within `return_seconds`, or goes on without one.
    """

    running: int = 200
    per_person: int = 10
    per_server: int = 100
    return_seconds: float = 5.0


class Limits(Struct, frozen=True):
    """The limits of a worker.

    A job is retried for up to `retry_seconds` while the database is down. When the worker stops, running jobs get
    `grace_seconds` to finish. Beside its work it looks for jobs every `poll_seconds`, whatever it is told. While a
    suspect runs, or waits for an empty process, what is taken here waits, too: a worker that is not alone then looks
    `held_seconds` later, and others come first.
    """

    bounds: Bounds = field(default_factory=Bounds)
    retry_seconds: float = 180.0
    grace_seconds: float = GRACE_SECONDS
    poll_seconds: float = POLL_SECONDS
    held_seconds: float = HELD_SECONDS


class _Holder(Struct, frozen=True):
    job_id: int
    person: str
    server: str | None


class Slots:
    """The slots of all jobs of one worker."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._running = asyncio.Semaphore(bounds.running)
        # By their slots: a job that a crash of the server has lost may have left its id to another.
        self._holders: dict[Slot, _Holder] = {}
        self._persons: Counter[str] = Counter()
        self._servers: Counter[str] = Counter()
        # While jobs are being taken, with the counts from before: what becomes free then is asked for again.
        self.is_taking = False

    @property
    def jobs(self) -> frozenset[int]:
        """Return the ids of the jobs in work."""
        return frozenset(holder.job_id for holder in self._holders.values())

    @property
    def counts(self) -> dict[str, str | int]:
        """Return how many turns of each person and server are in work, as JSON, and how many may be."""
        return {
            "persons": json.dumps(self._persons),
            "servers": json.dumps(self._servers),
            "per_person": self._bounds.per_person,
            "per_server": self._bounds.per_server,
        }

    async def reserve(self, most: int) -> int:
        """Reserve at most so many slots for new jobs, without waiting; return how many."""
        count = 0
        while count < most and not self._running.locked():
            await self._running.acquire()
            count += 1
        return count

    def release(self, count: int) -> None:
        """Release reserved slots."""
        for _ in range(count):
            self._running.release()

    def assign(self, job_id: int, person: str, server: str | None) -> Slot:
        """Give one reserved slot to a job, and return it."""
        slot = Slot(self._running, self._bounds.return_seconds, is_held=True)
        self._holders[slot] = _Holder(job_id, person, server)
        self._persons[person] += 1
        if server is not None:
            self._servers[server] += 1
        return slot

    def end(self, slot: Slot) -> bool:
        """Free the slot of a job that has ended, if there is one; return whether other jobs may have waited for it."""
        holder = self._holders.pop(slot, None)
        if holder is None:
            return False
        is_awaited = (
            self.is_taking
            or self._running.locked()
            or self._persons[holder.person] >= self._bounds.per_person
            or (holder.server is not None and self._servers[holder.server] >= self._bounds.per_server)
        )
        if slot.is_held:
            slot.is_held = False
            self._running.release()
        _decrease(self._persons, holder.person)
        if holder.server is not None:
            _decrease(self._servers, holder.server)
        return is_awaited


def _decrease(counts: Counter[str], key: str) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


class Prefetch(Struct, eq=False):
    """What the turn of a job begins with, read by the statement that stored its message, `stored_at`.

    `flushed` is awaited by those who may tell nobody before that the message is stored: True once it is flushed, with
    the begin of the turn or by itself, False when the job has ended without that.
    """

    place: Mapping[str, Any] | None
    stored_at: datetime
    until: float
    flushed: asyncio.Future[bool]

    @classmethod
    def of(cls, place: Mapping[str, Any], stored_at: datetime) -> "Prefetch":
        """Return what was read just now."""
        loop = asyncio.get_running_loop()
        return cls(place, stored_at, loop.time() + FRESH_SECONDS, loop.create_future())

    def take(self) -> Any:
        """Return what was read, once, with its fields as attributes; None when it may have changed since."""
        place, self.place = self.place, None
        is_fresh = asyncio.get_running_loop().time() < self.until
        return SimpleNamespace(**place) if place is not None and is_fresh else None

    @property
    def is_flushed(self) -> bool:
        """Return whether the message can't be lost any more."""
        return self.flushed.done() and self.flushed.result()

    def settle(self, *, is_flushed: bool) -> None:
        """Tell those who wait whether the message is flushed."""
        if not self.flushed.done():
            self.flushed.set_result(is_flushed)


class Job(Struct, frozen=True):
    """A queued job: run the next turn of the place of the message `inbox_id`.

    `was_lost`: the previous attempt in this process lost the database connection, which does not count as a failure.
    `last_error`: the error of the previous attempt if it failed for another reason. `slot`: the worker's slot that the
    job holds. `deaths`: for a suspect, how often its worker died while it ran alone. `unpaid`: for each attempt that
    this process has begun, the model calls that it may have left unpaid. `prefetch`: what was read for it when it was
    taken, if anything was.
    """

    id: int
    inbox_id: int
    was_lost: bool = False
    last_error: str | None = None
    slot: Slot = field(default_factory=Slot)
    deaths: int | None = None
    unpaid: dict[TurnKey, Sequence[PaidCall]] = field(default_factory=dict)
    prefetch: Prefetch | None = None


class Claim(Struct):
    """What a worker asks one statement for: as many jobs as it has reserved slots for, which is `room`.

    `parameters` are those of `take_jobs`; `jobs` are what it got; `last_server` is that of the job that was taken last.
    """

    slots: Slots
    room: int
    parameters: dict[str, Any]
    last_server: str
    jobs: list[Job] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Return whether there may be more jobs than those."""
        return 0 < self.room == len(self.jobs)

    def fill(self, rows: Iterable[Any], stored_at: datetime | None = None) -> None:
        """Give the jobs of these rows their slots; the messages of those with a `place` were stored `stored_at`."""
        for row in rows:
            slot = self.slots.assign(row["id"], row["person"], row["server"] or None)
            deaths = row["deaths"] if row["is_suspect"] else None
            prefetch = Prefetch.of(row["place"], stored_at) if stored_at and row["place"] else None
            self.jobs.append(Job(row["id"], row["inbox_id"], slot=slot, deaths=deaths, prefetch=prefetch))
            self.last_server = row["server"]


class Waiting(Struct, frozen=True):
    """An open message: one that waits for a turn, or whose turn is running (`turn_id`).

    `changed_at`: when it was stored, or edited last.
    """

    inbox_id: int
    message: IncomingMessage
    turn_id: int | None
    changed_at: datetime


def next_run(entries: Sequence[Waiting]) -> list[Waiting]:
    """Return the messages of the next turn: those of an interrupted turn, else the first person's consecutive ones."""
    cut_off = [entry for entry in entries if entry.turn_id is not None]
    if cut_off:
        return [entry for entry in cut_off if entry.turn_id == cut_off[0].turn_id]
    run: list[Waiting] = []
    for candidate in entries:
        first = run[0].message if run else candidate.message
        if (
            candidate.message.sender.platform_user_id != first.sender.platform_user_id
            or candidate.message.adapter != first.adapter
            or (run and (_is_alone(candidate.message) or _is_alone(first)))
        ):
            break
        run.append(candidate)
    return run[:MAX_COALESCED]


def _is_alone(message: IncomingMessage) -> bool:
    # A due job is a turn of its own; so is what gets a fixed answer, may use credentials, or brings its own history.
    is_of_program = message.credentials is not None or message.request is not None
    return message.due_job is not None or is_of_program or had_credential(message.content)


def merge(run: Sequence[Waiting]) -> IncomingMessage:
    """Merge consecutive messages of one user into one; its reply refers to the last of them."""
    last = run[-1].message
    if len(run) == 1:
        return last
    return replace(
        last,
        content="\n".join(entry.message.content for entry in run),
        attachments=tuple(file for entry in run for file in entry.message.attachments),
        wants_stream=any(entry.message.wants_stream for entry in run),
        replied_to=next((entry.message.replied_to for entry in reversed(run) if entry.message.replied_to), None),
        platform_context=replace(
            last.platform_context,
            earlier=tuple(line for entry in run for line in entry.message.platform_context.earlier),
        ),
    )
