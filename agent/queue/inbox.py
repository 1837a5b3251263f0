"""The inbox: stores an event and queues its job in one transaction, before the event is acknowledged."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from agent.live.channels import DUE
from agent.queue.job import MAX_COALESCED, Job, Waiting
from shared.credentials.typed import without_typed, without_typed_in
from shared.db.batching import BatchLoader
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import EventIdInUse
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
from shared.text import clean, clean_json
from shared.tracing.spans import record_first

statements = load_statements(__file__)

QUEUE = "turns"
TURN_TASK = "take_turn"
# Adapters without a sender: their callers read the answer themselves, so committing it counts as the delivery.
READ_BY_CALLER = frozenset({"http", "web", "terminal", "a2a"})

# Longer messages are stored alone: the events of a batch are serialised together, on the event loop.
MAX_BATCHED_CHARS = 10_000


@dataclass(frozen=True, slots=True)
class Accepted:
    """The inbox row of an event; `is_new` is False if the event had been stored before."""

    inbox_id: int
    is_new: bool


async def accept(database: Database, message: IncomingMessage) -> Accepted:
    """Store an event once and queue its turn; acknowledge the event to the platform only after this returns.

    Raises `DatabaseLost` if it could not be stored, `EventIdInUse` if its id belongs to another person's message.
    """
    parameters = to_row(message)
    async with database.statement() as session:
        row = (await session.execute(statements.accept, parameters)).one_or_none()
        if row is not None:
            return Accepted(row.id, is_new=True)
        first = (
            await session.execute(
                statements.find_known, {"platform": parameters["platform"], "event_id": parameters["event_id"]}
            )
        ).one()
    # A caller who reuses the event id of another person must not get that person's answer.
    if (first.place_key, first.platform_user_id) != (parameters["place_key"], parameters["user_id"]):
        raise EventIdInUse
    return Accepted(first.id, is_new=False)


async def accept_within(session: Session, message: IncomingMessage) -> bool:
    """Store an event once in the session's transaction, and queue its turn; return whether it is new."""
    row = to_row(message)
    is_new = (await session.execute(statements.accept, row)).one_or_none() is not None
    if is_new and message.due_job is not None:
        await session.execute(statements.tell_due, {"channel": DUE, "place_key": row["place_key"]})
    return is_new


class Inbox:
    """Accepts the events of a process; those that arrive while others are being stored are stored together.

    Otherwise each would wait for the commits of all earlier ones: Postgres commits only one notification at a time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loader = BatchLoader(self._accept_all)

    async def accept(self, message: IncomingMessage) -> Accepted:
        """Store an event as the function `accept` does."""
        clock = asyncio.get_running_loop().time
        began = clock()
        accepted = await self._store(message)
        if accepted.is_new:
            parameters = {"parley.adapter": message.adapter, "parley.platform": message.place.platform}
            record_first(accepted.inbox_id, f"accept {message.adapter}", parameters, seconds=clock() - began)
        return accepted

    async def _store(self, message: IncomingMessage) -> Accepted:
        if len(message.content) > MAX_BATCHED_CHARS:
            return await accept(self._database, message)
        return await self._loader.load(message) or await accept(self._database, message)

    async def _accept_all(self, messages: Sequence[IncomingMessage]) -> list[Accepted | None]:
        # None stands for an event that had been stored before, by this person or another one.
        if len(messages) == 1:
            return [await accept(self._database, messages[0])]
        rows = [to_row(message) for message in messages]
        keys = [(row["platform"], row["event_id"]) for row in rows]
        # Of equal events, the first is stored.
        firsts: dict[tuple[str, str], dict[str, Any]] = {}
        for number, (key, row) in enumerate(zip(keys, rows, strict=True)):
            firsts.setdefault(key, _to_json(row) | {"number": number})
        async with self._database.statement() as session:
            new_rows = (await session.execute(statements.accept_all, {"rows": json.dumps(list(firsts.values()))})).all()
        new = {(row.platform, row.platform_event_id): Accepted(row.id, is_new=True) for row in new_rows}
        return [new.pop(key, None) for key in keys]


def _to_json(row: dict[str, Any]) -> dict[str, Any]:
    decoded = {name: json.loads(row[name]) for name in ("attachments", "platform_context")}
    maybe = ("decision", "due_job", "credentials", "request")
    decoded |= {name: json.loads(row[name]) if row[name] else None for name in maybe}
    return row | decoded | {"sent_at": row["sent_at"].isoformat() if row["sent_at"] else None}


async def accept_answered(database: Database, message: IncomingMessage) -> bool:
    """Store the arrival of an event that needs no turn; return whether it arrived for the first time."""
    async with database.statement() as session:
        return (await session.execute(statements.accept_answered, to_row(message))).one_or_none() is not None


async def list_open(session: Session, job: Job) -> list[Waiting]:
    """Return the open messages of the job's place, in order; empty if another worker has taken over the job."""
    result = await session.execute(
        statements.list_open_messages, {"job_id": job.id, "inbox_id": job.inbox_id, "most": MAX_COALESCED * 2}
    )
    return [_to_waiting(row) for row in result.all()]


async def requeue_lost(session: Session) -> int:
    """Queue a job for every place that has open messages and no live job; return how many."""
    return len((await session.execute(statements.requeue_lost)).all())


async def requeue(session: Session, inbox_id: int) -> None:
    """Queue a job for the place of this message again, because its worker stops."""
    await session.execute(statements.requeue, {"inbox_id": inbox_id})


async def give_up(session: Session, job: Job, sentence: str) -> None:
    """Mark the messages of the next turn of the job's place as failed, and notify the callers that wait for them.

    These are the oldest open messages, not necessarily the one that the job names. For adapters with a sender,
    `sentence` is stored as the reply and delivered by the sweeper.
    """
    parameters = {"cause": job.last_error, "sentence": sentence, "read_by_caller": sorted(READ_BY_CALLER)}
    await session.execute(statements.give_up, {"inbox_id": job.inbox_id} | parameters)


def to_row(message: IncomingMessage) -> dict[str, Any]:
    """Convert a message to the parameters of the statements that store it."""
    sender, place, content = message.sender, _cleaned(message.place), without_typed(clean(message.content))
    if message.decision is not None and not content.strip():
        # A click on a button has no text, so its meaning is stored as the text for the history.
        content = message.decision.word
    return {
        "adapter": message.adapter,
        **asdict(place),
        "event_id": clean(message.event_id),
        "place_key": place.key,
        "user_id": clean(sender.platform_user_id),
        "username": _cleaned_or_none(sender.username),
        "message_id": _cleaned_or_none(message.platform_message_id),
        "content": content,
        "attachments": json.dumps(clean_json([asdict(attachment) for attachment in message.attachments])),
        "wants_stream": message.wants_stream,
        "platform_context": json.dumps(clean_json(_without_typed(message.platform_context).to_row())),
        "sent_at": message.sent_at,
        "decision": json.dumps(asdict(message.decision)) if message.decision else None,
        "replied_to": _cleaned_or_none(message.replied_to),
        "again_of": message.again_of,
        "due_job": json.dumps(clean_json(asdict(message.due_job))) if message.due_job else None,
        "credentials": json.dumps(asdict(message.credentials)) if message.credentials else None,
        "request": json.dumps(clean_json(without_typed_in(asdict(message.request)))) if message.request else None,
    }


def _without_typed(context: PlatformContext) -> PlatformContext:
    if not context.earlier:
        return context
    return replace(context, earlier=tuple(replace(line, text=without_typed(line.text)) for line in context.earlier))


def _cleaned(place: Place) -> Place:
    server, thread = _cleaned_or_none(place.server), _cleaned_or_none(place.thread)
    return replace(place, server=server, channel=clean(place.channel), thread=thread)


def _cleaned_or_none(text_: str | None) -> str | None:
    return clean(text_) if text_ is not None else None


def _to_waiting(row: Any) -> Waiting:
    message = IncomingMessage(
        adapter=row.adapter,
        sender=Sender(row.platform, row.platform_user_id, row.platform_username),
        place=Place.from_row(row),
        event_id=row.platform_event_id,
        content=row.content,
        sent_at=row.sent_at,
        attachments=tuple(Attachment(**attachment) for attachment in row.attachments),
        platform_message_id=row.platform_message_id,
        wants_stream=row.wants_stream,
        platform_context=PlatformContext.from_row(row.platform_context),
        decision=Decision(**row.decision) if row.decision else None,
        replied_to=row.replied_to,
        due_job=DueJob.from_row(row.due_job) if row.due_job else None,
        credentials=GivenCredentials(**row.credentials) if row.credentials else None,
        request=ProgramRequest.from_row(row.request) if row.request else None,
    )
    return Waiting(row.id, message, row.turn_id)
