"""What a running turn tells: numbered events, its text, a live message, and its answer to those who wait for it.

Readers in the process that runs the turn are told at once, those in other processes by NOTIFY.

The live message is only a preview; the reply is what the turn commits at its end. The id of the live message is stored
with the turn, so that the final delivery edits that message, also after a crash.
"""

import asyncio
import contextlib
import json
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from uuid import uuid4

from agent.journal.responses import find_response
from agent.journal.steps import Event, TurnKey
from agent.live.channels import TURNS, TurnNote, read_note
from agent.live.deltas import DeltaSender, DeltaVault
from agent.live.notifier import Bus, Notifier
from shared.db.database import DatabaseLost
from shared.db.single import SessionSource
from shared.db.statements import load_statements
from shared.errors import Stopping
from shared.log import get_logger
from shared.messages import AgentResponse, IncomingMessage, Place

if TYPE_CHECKING:
    from agent.outflow.reply import OutflowRules

statements = load_statements(__file__)

SEQS_PER_ATTEMPT = 1_000_000
# At the end, a message that is just being posted is awaited up to this long, so that its id is known.
SETTLE_SECONDS = 5.0
REMEMBERED_ENDS = 5000
READ_AGAIN_SECONDS = 5.0
# A reader waits so long for a database that is away, and comes back after so many seconds when this process stops.
OUTAGE_SECONDS, STOPPING_SECONDS = 8.0, 5.0

log = get_logger()
Observer = Callable[[str, dict[str, Any]], None]


class Announcer:
    """Numbers the events of one running turn, and tells readers of them and of its text if somebody is watching.

    All text of the model passes the turn's `outflow`; of a stream, only what is certain is sent. `tell` gets the notes
    for readers: of stored events, and, when somebody watches, of text. Events are numbered after `last_seq`, the last
    stored one of an interrupted attempt.
    """

    def __init__(
        self,
        tell: Callable[[dict[str, Any]], None],
        rules: "OutflowRules | None",
        key: TurnKey,
        inbox_ids: Sequence[int] = (),
        *,
        last_seq: int = -1,
        watched: bool = False,
    ) -> None:
        # Imported here: who only reads answers starts without its patterns.
        from agent.outflow.reply import Outflow

        self.outflow = Outflow(rules)
        self._turn_id, self._tell = key.id, tell
        self._note: dict[str, Any] = {"turn": key.id, "inbox": list(inbox_ids)}
        # Deltas are numbered but not stored, so readers may have seen higher numbers of the previous attempt.
        self._seq = max(last_seq + 1, (key.attempt - 1) * SEQS_PER_ATTEMPT)
        self._last_event = last_seq
        self._observer: Observer | None = None
        self._has_text, self._space = False, ""
        self.deltas: DeltaSender | None = None
        if watched:
            self.deltas = DeltaSender(lambda delta: tell(self._note | delta), self._next_seq, is_reset=key.attempt > 1)

    @property
    def wants_text(self) -> bool:
        """Return whether a reader or an observer wants text deltas, so that the model has to stream."""
        return self.deltas is not None or self._observer is not None

    def observe(self, observer: Observer) -> None:
        """Register the observer, which is called with the name and payload of every event, in this process."""
        self._observer = observer

    def event(self, name: str, **payload: Any) -> Event:
        """Create the next event of the turn; the caller stores it in a journal transaction."""
        if self._observer is not None:
            self._observer(name, payload)
        self._last_event = self._next_seq()
        return Event(self._turn_id, self._last_event, name=name, payload=payload)

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq - 1

    def thinking(self, text: str) -> list[Event]:
        """Return the event with the model's thinking; an empty list if the text is empty."""
        return [self.event("thinking", text=self.outflow.filtered(text))] if text else []

    def announce(self, *, is_end: bool = False) -> None:
        """Tell readers that the events up to here are stored; without a watching reader only of the end."""
        if self.deltas is not None or is_end:
            self._tell(self._note | {"last_seq": self._last_event, "end": is_end})

    def add_text(self, delta: str) -> None:
        """Add a piece of text from the model; what is certain of it is told within 50 ms."""
        if self.wants_text:
            self._add(self.outflow.feed(delta))

    def _add(self, text: str) -> None:
        # The stored message neither begins nor ends with white space: what was sent of it is always its beginning.
        text = self._space + text if self._has_text else text.lstrip()
        self._has_text = self._has_text or bool(text)
        self._space = text[len(text.rstrip()) :]
        self._send(text.rstrip())

    def _send(self, text: str) -> None:
        if text and self._observer is not None:
            self._observer("text_delta", {"text": text})
        if text and self.deltas is not None:
            self.deltas.add(text)

    def reset_text(self) -> None:
        """Tell readers to drop the text of this step: the model's stream was interrupted and starts again."""
        self.outflow.drop_stream()
        self._has_text, self._space = False, ""
        if self._observer is not None:
            self._observer("text_delta", {"text": "", "reset": True})
        if self.deltas is not None:
            self.deltas.reset()

    def flush(self, *, is_end: bool = False) -> None:
        """Send the rest of the text at once, so that it arrives before the stored event that follows it.

        Unless it is the end, another text may follow: the white space that separates them is sent, too.
        """
        if self.wants_text:
            self._add(self.outflow.finish())
            if not is_end:
                self._send(self._space)
            self._has_text, self._space = False, ""
        if self.deltas is not None:
            self.deltas.end_step()


class LiveTurn:
    """The state of a running turn for display: the text of its last step, its running and its finished tools.

    By call id: `calls` has the names of all tools that were called; `ended_tools` is True for failed calls.
    """

    def __init__(self, database: SessionSource, key: TurnKey, message: IncomingMessage) -> None:
        self.message = message
        self.text = ""
        self.calls: dict[str, str] = {}
        self.ended_tools: dict[str, bool] = {}
        self._database, self._key = database, key
        self._is_new_step = False
        self._ended = asyncio.Event()

    @property
    def turn_id(self) -> int:
        """Return the turn's id."""
        return self._key.id

    @property
    def is_resumed(self) -> bool:
        """Return whether an earlier attempt of the turn was interrupted."""
        return self._key.attempt > 1

    @property
    def place(self) -> Place:
        """Return where the question was asked."""
        return self.message.place

    @property
    def reply_to(self) -> str:
        """Return the id of the message that is answered."""
        return self.message.platform_message_id or self.message.event_id

    @property
    def asker(self) -> str:
        """Return the platform's id of the person who asked."""
        return self.message.sender.platform_user_id

    @property
    def tools(self) -> list[str]:
        """Return the names of the running tools."""
        return [name for call_id, name in self.calls.items() if call_id not in self.ended_tools]

    def observe(self, name: str, payload: dict[str, Any]) -> None:
        """Update the state with an event of the turn."""
        if name == "tool_call":
            self.calls[str(payload["id"])] = str(payload["tool"])
        elif name == "tool_result":
            self.ended_tools[str(payload.get("id"))] = bool(payload.get("error"))
            self._is_new_step = True
        elif name == "text_delta":
            if payload.get("reset") or self._is_new_step:
                self.text, self._is_new_step = "", False
            self.text += payload["text"]

    async def ends_within(self, seconds: float) -> bool:
        """Wait for the end of the turn; return False if it has not ended after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def end(self) -> None:
        """Mark the turn as ended, for the sender that shows it."""
        self._ended.set()

    async def find_message(self) -> str | None:
        """Return the id of the live message of an earlier attempt; None if there is none."""
        async with self._database.statement() as session:
            row = (await session.execute(statements.find_live_message, {"turn_id": self.turn_id})).one_or_none()
        return None if row is None else row.live_message_id

    async def keep_message(self, message_id: str) -> bool:
        """Store the id of the live message for the final delivery; return False if another worker has the turn."""
        parameters = {"message_id": message_id, "turn_id": self._key.id, "attempt": self._key.attempt}
        async with self._database.statement() as session:
            return (await session.execute(statements.store_live_message, parameters)).one_or_none() is not None


@runtime_checkable
class LiveSender(Protocol):
    """A sender that can show a live message."""

    async def show(self, turn: LiveTurn) -> None:
        """Show the turn until it ends."""
        ...


@asynccontextmanager
async def shown_live(sender: object, turn: LiveTurn, announcer: Announcer) -> AsyncIterator[None]:
    """Show the turn live during the block if its sender can; after the block the sender has stopped."""
    if not isinstance(sender, LiveSender):
        yield
        return
    announcer.observe(turn.observe)
    showing = asyncio.create_task(sender.show(turn), name="live message")
    try:
        yield
    finally:
        turn.end()
        await asyncio.wait({showing}, timeout=SETTLE_SECONDS)
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)
        if not showing.cancelled() and (error := showing.exception()) is not None:
            log.warning("live_message_failed", turn=turn.turn_id, cause=repr(error))


class Outage:
    """How long the database has been away for one reader, who waits for its return for a while."""

    def __init__(self) -> None:
        self._began: float | None = None

    @contextlib.contextmanager
    def bridged(self) -> Iterator[None]:
        """Bear `DatabaseLost` in the block, unless the outage has lasted for longer than a restart takes."""
        now = asyncio.get_running_loop().time
        try:
            yield
        except DatabaseLost as error:
            self._began = now() if self._began is None else self._began
            if now() - self._began >= OUTAGE_SECONDS:
                raise DatabaseLost(retry_after=OUTAGE_SECONDS) from error
        else:
            self._began = None


class TurnReaders:
    """Those who wait for the answers of turns in this process."""

    def __init__(
        self, database: SessionSource, keys: Sequence[str], rules: "OutflowRules | None" = None, bus: Bus | None = None
    ) -> None:
        self._database, self._vault, self._rules = database, DeltaVault(keys), rules
        self._origin, self.notifier = uuid4().hex, Notifier(database, bus)
        self._queues: dict[int, set[asyncio.Queue[dict[str, Any]]]] = defaultdict(set)
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._here: set[int] = set()
        self._is_stopping = False
        # A reader looks again after this time, whatever it was told.
        self.read_again_seconds = READ_AGAIN_SECONDS

    def announcer(
        self, key: TurnKey, inbox_ids: Sequence[int] = (), *, last_seq: int = -1, watched: bool = False
    ) -> Announcer:
        """Return the announcer of a turn; `last_seq` is the last stored event of an interrupted attempt."""
        announcer = Announcer(self._tell, self._rules, key, inbox_ids=inbox_ids, last_seq=last_seq, watched=watched)
        self._vault.senders.update(dict.fromkeys(inbox_ids, announcer.deltas) if announcer.deltas is not None else {})
        return announcer

    @contextlib.contextmanager
    def running_here(self, inbox_ids: Sequence[int]) -> Iterator[None]:
        """Wake this process's readers at the end of the block, unless `finish` did, instead of by the notification."""
        self._here.update(inbox_ids)
        try:
            yield
        finally:
            self._wake([inbox_id for inbox_id in inbox_ids if inbox_id in self._here])

    def finish(self, inbox_ids: Sequence[int], response: AgentResponse | None = None) -> None:
        """Pass the answer of a turn to the readers in this process; if it is None, they read it from the tables."""
        self._wake(inbox_ids, response)

    async def response(self, inbox_id: int) -> AgentResponse:
        """Wait for the end of the turn that answers this message, and return its answer.

        Raises `DatabaseLost` when the database is away for longer than a restart of it takes, and `Stopping`.
        """
        outage = Outage()
        with self._queue(inbox_id) as queue:
            reply = await self._read_response(inbox_id, outage) if inbox_id in self._ended else None
            while reply is None:
                reply = await self._wait_for_end(inbox_id, queue) or await self._read_response(inbox_id, outage)
        return reply

    def stop_readers(self) -> None:
        """Let those who wait here ask again, because this process ends: they get `Stopping`."""
        self._is_stopping = True
        for queue in [queue for queues in self._queues.values() for queue in queues]:
            queue.put_nowait({"end": True})

    async def _wait_for_end(self, inbox_id: int, queue: asyncio.Queue[dict[str, Any]]) -> AgentResponse | None:
        while True:
            try:
                note = await asyncio.wait_for(queue.get(), self.read_again_seconds)
            except TimeoutError:
                note = {"end": True}
            if self._is_stopping and note.get("response") is None:
                raise Stopping(retry_after=STOPPING_SECONDS)
            # The turn that runs here wakes its readers itself, with the answer.
            if note.get("end") and ("turn" not in note or inbox_id not in self._here):
                self._remember_end(inbox_id)
                response: AgentResponse | None = note.get("response")
                return response

    async def _read_response(self, inbox_id: int, outage: Outage) -> AgentResponse | None:
        with outage.bridged():
            async with self._database.statement() as session:
                return await find_response(session, inbox_id, lost_ids=self._database.witness.former_messages)
        return None

    @contextlib.contextmanager
    def _queue(self, inbox_id: int) -> Iterator[asyncio.Queue[dict[str, Any]]]:
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._queues[inbox_id].add(queue)
        try:
            yield queue
        finally:
            self._queues[inbox_id].discard(queue)
            if not self._queues[inbox_id]:
                del self._queues[inbox_id]

    def _wake(self, inbox_ids: Sequence[int], response: AgentResponse | None = None) -> None:
        self._here.difference_update(inbox_ids)
        for inbox_id in inbox_ids:
            self._remember_end(inbox_id)
            for queue in self._queues.get(inbox_id, ()):
                queue.put_nowait({"end": True, "response": response})

    def _tell(self, note: dict[str, Any]) -> None:
        # Of a turn that runs here: to its readers here, and by a notification to those in other processes. Of its end
        # those here hear with the answer.
        if not note.get("end"):
            self._pass_on(note)
        sealed = self._vault.seal(note, note["delta"]) if "delta" in note else note
        self.notifier.send(TURNS, json.dumps(sealed | {"origin": self._origin}))

    def _pass_on(self, note: dict[str, Any]) -> None:
        for inbox_id in note["inbox"]:
            if note.get("end"):
                self._remember_end(inbox_id)
            for queue in self._queues.get(inbox_id, ()):
                queue.put_nowait(note)

    def _on_turn_note(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        note = read_note(TurnNote, payload)
        if note is None or note.get("origin") == self._origin:
            return
        if "delta" in note and any(inbox_id in self._queues for inbox_id in note["inbox"]):
            note["delta"] = self._vault.find(note)
        self._pass_on(note)

    def _remember_end(self, inbox_id: int) -> None:
        # A reader may begin to wait just after the end was notified.
        self._ended[inbox_id] = None
        while len(self._ended) > REMEMBERED_ENDS:
            self._ended.popitem(last=False)
