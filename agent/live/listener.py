"""The listener: lets readers follow a turn's events and wait for its answer, from any process.

Stored events are written in the journal's transactions and announced after them; text deltas are sent only in the
notifications, in small batches. Readers may be on other machines; a slow or disconnected reader never delays a turn.
"""

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
from msgspec import Struct, field

from agent.journal.steps import Event
from agent.live.announcer import STOPPING_SECONDS, Outage, TurnReaders
from agent.live.channels import CANCELLATIONS, CHANGES, DUE, JOBS, MAX_SEQ, READERS, TURNS, ReaderNote, read_note
from agent.live.failovers import Failovers
from agent.live.notifier import Bus, HearingSession
from shared.db.connections import UnfitDatabase
from shared.db.database import DatabaseLost
from shared.db.driver import close_connection
from shared.db.single import SessionSource
from shared.db.statements import load_statements
from shared.errors import Stopping
from shared.log import get_logger
from shared.messages import to_fields
from shared.text import to_id

if TYPE_CHECKING:
    from agent.outflow.reply import Outflow, OutflowRules

statements = load_statements(__file__)

# A reader of due jobs looks again after this time, whatever it was told.
LOOK_AGAIN_SECONDS = 60.0
LAST_EVENT = "turn_complete"
MOST_STOPS = 1000  # looked up in one statement
# A connection that only listens is asked whether it still is one: a silent network ends nothing.
PING_SECONDS = 4.0

log = get_logger()


class _Observers(Struct, frozen=True):
    # Called with the id of a turn that is to stop, and whether it is stored; with a table that an admin has changed
    # (None: any may have been).
    of_cancellations: list[Callable[[int, bool], None]] = field(default_factory=list)
    of_changes: list[Callable[[str | None], None]] = field(default_factory=list)


class Listener(TurnReaders):
    """Keeps one LISTEN connection per process and wakes the readers of turns.

    A lost connection is reopened; all readers then read the tables again, so that they miss nothing.
    """

    def __init__(
        self, database: SessionSource, keys: Sequence[str], rules: "OutflowRules | None" = None, bus: Bus | None = None
    ) -> None:
        super().__init__(database, keys, rules, bus=bus)
        self._observers = _Observers()
        # Pending `is_awaited` requests to other processes, by token.
        self._asked: dict[str, asyncio.Event] = {}
        # Turns that somebody wants to stop, and the task that looks up whether a person does.
        self._stops: set[int] = set()
        self._cancelling: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self.session = HearingSession()
        # The readers of what scheduled jobs send, by the key of the place.
        self._places: dict[str, set[asyncio.Event]] = defaultdict(set)
        self.failovers = Failovers(database)

    def outflow(self) -> "Outflow":
        """Return a new filter for what is sent outside of a turn."""
        # Imported here for the reason in `announcer.py`.
        from agent.outflow.reply import Outflow

        return Outflow(self._rules)

    async def start(self) -> None:
        """Open the connection, as soon as the database accepts it; it is kept until `close`."""
        connection = await self._open_again()
        self._task = asyncio.create_task(self._keep(connection), name="event listener")
        await self.notifier.start(self)

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            await self.notifier.close()
            self._task.cancel()
            await asyncio.gather(self._task, *filter(None, [self._cancelling]), return_exceptions=True)

    def on_cancellation(self, callback: Callable[[int, bool], None]) -> None:
        """Register a callback, which is called when a person requests to stop a turn, with its id.

        The second argument tells whether the turn is stored: False when it was erased, or has only got its id.
        """
        self._observers.of_cancellations.append(callback)

    def on_change(self, callback: Callable[[str | None], None]) -> None:
        """Register a callback, which is called with the name of a table when an admin has changed it, by any way.

        It is called with None when notes may have been missed, because the connection was lost: anything may have
        changed.
        """
        self._observers.of_changes.append(callback)

    async def follow(self, inbox_id: int, *, is_late: bool = False) -> AsyncGenerator[Event]:
        """Yield the events of the turn that answers this message, stored ones and live deltas, until its end.

        Who follows from the beginning gets all of them in their order, unless a connection is lost. With `is_late` the
        text of a step that is being written is told again from its beginning, as a delta with `reset`.
        """
        last, outage = -1, Outage()
        note: dict[str, Any] = {}
        with self._queue(inbox_id) as queue:
            if is_late:
                self.notifier.send(READERS, json.dumps({"text_of": inbox_id}))
            while True:
                # Later events may be stored already, but deltas before them still wait in the queue.
                events = await self._read_events(inbox_id, outage, after=last, last=note.get("last_seq"))
                for event in events:
                    yield event
                if events and events[-1].name == LAST_EVENT:
                    return
                last = events[-1].seq if events else last
                while "delta" in (note := await self._next_note(inbox_id, queue, last)):
                    last = note["seq"]
                    yield Event(note["turn"], last, name="text_delta", payload=note["delta"])

    async def due_in(self, *place_keys: str) -> AsyncGenerator[None]:
        """Yield at once, and then whenever a scheduled job has sent a message into these places, or may have."""
        arrived = asyncio.Event()
        for place_key in place_keys:
            self._places[place_key].add(arrived)
        try:
            while True:
                yield
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(arrived.wait(), LOOK_AGAIN_SECONDS)
                arrived.clear()
        finally:
            for place_key in place_keys:
                self._places[place_key].discard(arrived)
                if not self._places[place_key]:
                    del self._places[place_key]

    async def is_awaited(self, inbox_ids: Sequence[int], seconds: float) -> bool:
        """Return whether a reader in any process waits for one of these messages; others have `seconds` to answer."""
        if self._has_reader(inbox_ids):
            return True
        token = uuid4().hex
        event = self._asked[token] = asyncio.Event()
        try:
            self.notifier.send(READERS, json.dumps({"asked": token, "inbox": list(inbox_ids)}))
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return self._has_reader(inbox_ids)
        finally:
            del self._asked[token]
        return True

    def _has_reader(self, inbox_ids: Sequence[int]) -> bool:
        return any(inbox_id in self._queues for inbox_id in inbox_ids)

    async def _next_note(self, inbox_id: int, queue: asyncio.Queue[dict[str, Any]], last: int) -> dict[str, Any]:
        while True:
            try:
                note = await asyncio.wait_for(queue.get(), self.read_again_seconds)
            except TimeoutError:
                # A notification may have been missed, so the tables are read as if the turn had ended.
                self._remember_end(inbox_id)
                return {"end": True}
            if self._is_stopping:
                raise Stopping(retry_after=STOPPING_SECONDS)
            # The previous attempt may still stream after the next one has begun; its deltas have lower numbers.
            if "delta" in note and (note["delta"] is None or note["seq"] <= last):
                continue
            return note

    async def _read_events(self, inbox_id: int, outage: Outage, *, after: int, last: int | None) -> list[Event]:
        with outage.bridged():
            async with self._database.statement() as session:
                parameters = {"inbox_id": inbox_id, "after": after, "last": MAX_SEQ if last is None else last}
                rows = (await session.execute(statements.list_events_after, parameters)).all()
            if rows or inbox_id not in self._ended:
                return [Event(*row) for row in rows]
            # A message for which no turn could begin has no events, so its end is built from its response.
            response = await self._read_response(inbox_id, outage)
            if response is not None and not response.turn_id:
                usage = to_fields(response.usage)
                end = {"iterations": 0, "usage": usage, "finished": False, "error": response.error, "model": None}
                return [
                    Event(0, 0, name="message", payload={"content": response.content, "files": []}),
                    Event(0, 1, name=LAST_EVENT, payload=end),
                ]
        return []

    async def _keep(self, connection: asyncpg.Connection) -> None:
        try:
            while True:
                loss = asyncio.Event()
                connection.add_termination_listener(lambda _connection, event=loss: event.set())
                self.session.connection = connection
                await self._until_lost(connection, loss)
                self.session.connection = None
                log.warning("listener_reconnecting")
                connection.terminate()
                connection = await self._open_again()
        finally:
            self.session.connection = None
            await close_connection(connection)

    async def _open_again(self) -> asyncpg.Connection:
        is_logged = False
        while True:
            try:
                connection = await self._database.connect()
                with contextlib.ExitStack() as closing:
                    closing.callback(connection.terminate)
                    # Before anything is reported by way of the pool, which a pooler may lead to another server.
                    await self._database.look(connection)
                    await connection.add_listener(TURNS, self._on_turn_note)
                    await connection.add_listener(CANCELLATIONS, self._on_cancellation_note)
                    await connection.add_listener(READERS, self._on_reader_note)
                    await connection.add_listener(CHANGES, lambda *note: self._tell_change(str(note[-1])))
                    await connection.add_listener(DUE, self._on_due_note)
                    await connection.add_listener(JOBS, self._on_job_note)
                    closing.pop_all()
                break
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, UnfitDatabase) as error:
                if not is_logged:
                    log.warning("listener_waits_for_database", cause=f"{error or type(error).__name__}")
                is_logged = True
                await asyncio.sleep(0.5)
        self.look_again()
        for arrived in [arrival for readers in self._places.values() for arrival in readers]:
            arrived.set()
        self._tell_change(None)
        return connection

    def look_again(self) -> None:
        """Let all readers read the tables, and workers look for jobs: notes may have been missed."""
        for queue in [queue for queues in self._queues.values() for queue in queues]:
            queue.put_nowait({"end": True})
        for worker in self.notifier.workers:
            worker.wake()

    def receive(self, channel: str, note: str) -> None:
        """Act on a note that came by another way than NOTIFY."""
        on_note = {TURNS: self._on_turn_note, JOBS: self._on_job_note}[channel]
        on_note(None, 0, channel, note)

    def _on_due_note(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for arrived in self._places.get(str(payload), ()):
            arrived.set()

    def _on_cancellation_note(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        turn_id = to_id(str(payload))
        if turn_id is not None and self._observers.of_cancellations:
            self._stops.add(turn_id)
            if self._cancelling is None or self._cancelling.done():
                self._cancelling = asyncio.create_task(self._cancel(), name="stops")

    async def _cancel(self) -> None:
        # Every role may send notes, and many of them: those that arrive meanwhile are looked up together.
        while self._stops:
            turn_ids = [self._stops.pop() for _ in range(min(len(self._stops), MOST_STOPS))]
            stops: Sequence[Any] = ()
            # When the database is lost now, the turn sees the request with its next step.
            with contextlib.suppress(DatabaseLost):
                async with self._database.statement() as session:
                    stops = (await session.execute(statements.list_stopped, {"turn_ids": turn_ids})).all()
            for stop in stops:
                for cancellation in self._observers.of_cancellations:
                    cancellation(stop.turn_id, stop.is_stored)

    def _tell_change(self, table: str | None) -> None:
        for of_change in self._observers.of_changes:
            of_change(table)

    def _on_job_note(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        for worker in self.notifier.workers:
            if payload in {"", str(worker.worker_id)}:
                worker.wake()

    def _on_reader_note(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        note = read_note(ReaderNote, payload) or {}
        if (event := self._asked.get(note.get("here", ""))) is not None:
            event.set()
        elif "asked" in note and self._has_reader(note.get("inbox", ())):
            self.notifier.send(READERS, json.dumps({"here": note["asked"]}))
        elif (text := self._vault.senders.get(note.get("text_of", 0))) is not None:
            text.repeat()

    async def _until_lost(self, connection: asyncpg.Connection, loss: asyncio.Event) -> None:
        with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, UnfitDatabase):
            while not connection.is_closed():
                with contextlib.suppress(DatabaseLost):
                    await self.failovers.report()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(loss.wait(), PING_SECONDS)
                    return
                async with self.session.in_turn:
                    await self._database.look(connection)
