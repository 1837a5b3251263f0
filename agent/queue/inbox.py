"""The inbox: stores an event and queues its job in one transaction, before the event is acknowledged."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from agent.live.notifier import JobTaker, Notifier
from agent.queue.job import MAX_COALESCED, Job, Waiting
from shared.db.batching import BatchLoader
from shared.db.database import DatabaseLost
from shared.db.driver import Session
from shared.db.errors import server_errors
from shared.db.single import SessionSource
from shared.db.statements import load_statements
from shared.errors import EventIdInUse, ServerMoved
from shared.messages import (
    Attachment,
    Decision,
    DueJob,
    GivenCredentials,
    IncomingMessage,
    Place,
    PlatformContext,
    ProgramRequest,
    Sender,
)
from shared.text import clean, without_credential, without_credentials_in, write_json
from shared.tracing.spans import record_first

statements = load_statements(__file__)

# Adapters without a sender: their callers read the answer themselves, so committing it counts as the delivery.
READ_BY_CALLER = frozenset({"http", "web", "terminal", "a2a"})

# Longer messages are stored alone: the events of a batch are serialised together, on the event loop.
MAX_BATCHED_CHARS = 10_000

# What `parley_prepare_turn` is told.
PREPARATION = {"messages": MAX_COALESCED * 2}
# A turn that has not begun by then waits for something: its message is flushed apart.
BEGIN_SECONDS = 0.05


class Accepted(Struct, frozen=True):
    """The inbox row of an event; `is_new` is False if the event had been stored before."""

    inbox_id: int
    is_new: bool


async def accept_within(session: Session, *messages: IncomingMessage) -> Sequence[Any]:
    """Store events once each in the session's transaction, and queue their turns; return as `accept_all` does.

    All that a transaction stores is stored by one call, which locks the places in a fixed order.
    """
    return await accept_all(session, [to_event(message) for message in messages]) if messages else ()


async def accept_answered(session: Session, message: IncomingMessage) -> bool:
    """Store the arrival of an event that needs no turn, without its text; return whether it arrived the first time."""
    (row,) = await accept_all(session, [to_event(replace(message, content="")) | {"is_answered": True}])
    if row.inbox_id is None:
        raise ServerMoved
    return bool(row.is_new)


async def accept_all(
    session: Session, events: Sequence[dict[str, Any]], *, is_announced: bool = False
) -> Sequence[Any]:
    """Store events once each, and queue their turns; return a row of `parley_accept` for each.

    With `is_announced` the caller tells a worker of them afterwards.
    """
    parameters = {"events": write_json(events), "is_announced": is_announced}
    rows: Sequence[Any] = (await session.execute(statements.accept, parameters)).all()
    return rows


def _check(row: Any) -> Accepted:
    if row.inbox_id is None:
        raise ServerMoved
    # A caller who reuses the event id of another person must not get that person's answer.
    if not row.is_same_sender:
        raise EventIdInUse
    return Accepted(row.inbox_id, is_new=row.is_new)


class Inbox:
    """Accepts the events of a process; those that arrive while others are being stored are stored together."""

    def __init__(self, database: SessionSource, notifier: Notifier) -> None:
        self._database, self._notifier = database, notifier
        self._loader = BatchLoader(self._accept_all)

    async def accept(self, message: IncomingMessage) -> Accepted:
        """Store an event once and queue its turn; acknowledge the event to the platform only after this returns.

        Raises `DatabaseLost` if it could not be stored, or was lost with the server before it was flushed;
        `EventIdInUse` if its id belongs to another person's message, `ServerMoved` if its server lives in another cell.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        if len(message.content) > MAX_BATCHED_CHARS:
            # In a task of its own, as a batch is: who is cancelled while it takes jobs would leave them to nobody.
            (row,) = await asyncio.shield(asyncio.create_task(self._accept_all([message]), name="accept"))
        else:
            row = await self._loader.load(message)
        accepted = _check(row)
        if (job := getattr(row, "job", None)) is not None:
            # The begin of its turn, which is under way, flushes the message too.
            await asyncio.wait({job.prefetch.flushed}, timeout=BEGIN_SECONDS)
            if not await flush(self._database, job):
                raise DatabaseLost
        now = clock()
        self._database.witness.messages.append((now, accepted.inbox_id))
        if accepted.is_new:
            parameters = {"parley.adapter": message.adapter, "parley.platform": message.place.platform}
            record_first(accepted.inbox_id, f"accept {message.adapter}", parameters, seconds=now - began)
        return accepted

    async def _accept_all(self, messages: Sequence[IncomingMessage]) -> Sequence[Any]:
        events = [to_event(message) for message in messages]
        worker = self._notifier.find_near()
        rows = None if worker is None else await self._accept_and_take(events, worker)
        if rows is None:
            async with self._database.statement() as session:
                rows = await accept_all(session, events, is_announced=True)
            for row in rows:
                if row.is_new:
                    self._notifier.announce_job()
        return rows

    async def _accept_and_take(self, events: Sequence[dict[str, Any]], worker: JobTaker) -> Sequence[Any] | None:
        """Store events with a statement that gives the worker jobs; None: nothing is stored, as it can't have any now.

        The worker takes no others meanwhile, so that the statement waits for no place that somebody has locked for
        long; nor is a message lost because no jobs can be taken.
        """
        try:
            async with worker.claim() as claim:
                if claim is None:
                    return None
                parameters = {"events": write_json(events), **PREPARATION, **claim.parameters}
                async with self._database.statement() as session:
                    row = (await session.execute(statements.accept_and_take, parameters)).one()
                claim.fill(row.jobs or (), row.stored_at)
                jobs = {} if row.is_flushed else {job.inbox_id: job for job in claim.jobs}
                return [SimpleNamespace(**accepted, job=jobs.get(accepted["inbox_id"])) for accepted in row.accepted]
        except server_errors():
            return None


async def flush(database: SessionSource, job: Job) -> bool:
    """Make sure that the message which was stored together with its job is flushed; return False if it was lost."""
    if job.prefetch is None or job.prefetch.is_flushed:
        return True
    parameters = {"inbox_id": job.inbox_id, "stored_at": job.prefetch.stored_at}
    async with database.statement() as session:
        is_there = bool((await session.execute(statements.flush_message, parameters)).all())
    job.prefetch.settle(is_flushed=is_there)
    return is_there


def to_waiting(row: Mapping[str, Any]) -> Waiting:
    """Return an open message from its columns, with times as text."""
    request, due_job = row["request"], row["due_job"]
    message = IncomingMessage(
        adapter=row["adapter"],
        sender=Sender(row["platform"], row["platform_user_id"], row["platform_username"]),
        place=Place(
            row["platform"],
            row["platform_server_id"],
            row["platform_channel_id"],
            thread=row["platform_thread_id"],
            is_direct=row["is_direct"],
        ),
        event_id=row["platform_event_id"],
        content=row["content"],
        sent_at=datetime.fromisoformat(row["sent_at"]),
        attachments=tuple(Attachment(**attachment) for attachment in row["attachments"]),
        platform_message_id=row["platform_message_id"],
        wants_stream=row["wants_stream"],
        platform_context=PlatformContext.from_row(row["platform_context"]),
        decision=Decision(**row["decision"]) if row["decision"] else None,
        replied_to=row["replied_to"],
        due_job=DueJob.from_row(due_job) if due_job else None,
        credentials=GivenCredentials(**row["credentials"]) if row["credentials"] else None,
        request=ProgramRequest.from_row(request) if request else None,
    )
    return Waiting(row["id"], message, row["turn_id"], changed_at=datetime.fromisoformat(row["changed_at"]))


async def requeue_lost(session: Session) -> int:
    """Queue a job for every place that has open messages and no live job; return how many."""
    return len((await session.execute(statements.requeue_lost)).all())


async def give_up(session: Session, job: Job, sentence: str) -> None:
    """Mark the messages of the next turn of the job's place as failed, and notify the callers that wait for them.

    These are the oldest open messages, not necessarily the one that the job names. For adapters with a sender,
    `sentence` is stored as the reply and delivered by the sweeper. No effect if another worker has taken over the job.
    """
    parameters = {"cause": job.last_error, "sentence": sentence, "read_by_caller": sorted(READ_BY_CALLER)}
    await session.execute(statements.give_up, {"job_id": job.id, "inbox_id": job.inbox_id} | parameters)


def to_event(message: IncomingMessage) -> dict[str, Any]:
    """Convert a message to an event of `parley_accept`."""
    sender, content = message.sender, without_credential(clean(message.content))
    server, thread = _cleaned_or_none(message.place.server), _cleaned_or_none(message.place.thread)
    place = replace(message.place, server=server, channel=clean(message.place.channel), thread=thread)
    if message.decision is not None and not content.strip():
        # A click on a button has no text, so its meaning is stored as the text for the history.
        content = message.decision.word
    context = message.platform_context
    if context.earlier:
        earlier = tuple(replace(line, text=without_credential(line.text)) for line in context.earlier)
        context = replace(context, earlier=earlier)
    return {
        "adapter": message.adapter,
        **asdict(place),
        "event_id": clean(message.event_id),
        "place_key": place.key,
        "user_id": clean(sender.platform_user_id),
        "username": _cleaned_or_none(sender.username),
        "message_id": _cleaned_or_none(message.platform_message_id),
        "content": content,
        "attachments": [asdict(attachment) for attachment in message.attachments],
        "wants_stream": message.wants_stream,
        "platform_context": context.to_row(),
        "sent_at": message.sent_at.isoformat() if message.sent_at else None,
        "decision": asdict(message.decision) if message.decision else None,
        "replied_to": _cleaned_or_none(message.replied_to),
        "again_of": message.again_of,
        "due_job": to_builtins(message.due_job) if message.due_job else None,
        "credentials": asdict(message.credentials) if message.credentials else None,
        "request": without_credentials_in(to_builtins(message.request)) if message.request else None,
    }


def _cleaned_or_none(text_: str | None) -> str | None:
    return clean(text_) if text_ is not None else None
