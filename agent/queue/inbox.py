"""The inbox: stores an event and queues its job in one transaction, before the event is acknowledged."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import bindparam, literal_column, select, text
from sqlalchemy.dialects.postgresql import JSONB

from agent.live.channels import TURNS
from agent.queue.job import MAX_COALESCED, Job, Waiting
from shared.credentials.typed import without_typed, without_typed_in
from shared.db.batching import BatchLoader
from shared.db.database import Database
from shared.db.driver import Session
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
from shared.models import InboxMessage
from shared.text import clean, clean_json
from shared.tracing.spans import record_first

QUEUE = "turns"
TURN_TASK = "take_turn"
# Adapters without a sender: their callers read the answer themselves, so committing it counts as the delivery.
READ_BY_CALLER = frozenset({"http", "web", "terminal", "a2a"})

# Longer messages are stored alone: the events of a batch are serialised together, on the event loop.
MAX_BATCHED_CHARS = 10_000
ACCEPT = text("SELECT * FROM parley_accept(CAST(:events AS jsonb))")

# Queues a job for places with open messages but no live job, which can be lost with its connection. Clocks may be set.
# It looks at places, not at messages: the first one of each is found by the index.
REQUEUE_LOST = text("""
WITH RECURSIVE first AS (
    (SELECT place_key, id, created_at FROM inbox WHERE status IN ('waiting', 'claimed')
     ORDER BY place_key, turn_id IS NULL, sent_at, id LIMIT 1)
    UNION ALL
    SELECT later.* FROM first CROSS JOIN LATERAL (
        SELECT place_key, id, created_at FROM inbox
        WHERE status IN ('waiting', 'claimed') AND inbox.place_key > first.place_key
        ORDER BY place_key, turn_id IS NULL, sent_at, id LIMIT 1
    ) AS later
)
SELECT place_key, parley_queue_turn(id) FROM first
WHERE abs(extract(epoch FROM now() - created_at)) > 10 AND NOT EXISTS (
    SELECT FROM procrastinate_jobs WHERE lock = first.place_key AND procrastinate_jobs.status IN ('todo', 'doing')
)
ORDER BY place_key
""")

REQUEUE = text(f"""
SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(
    '{QUEUE}', '{TURN_TASK}', 0, place_key, NULL, jsonb_strip_nulls(jsonb_build_object(
        'inbox_id', id, 'person', platform || ' ' || platform_user_id, 'server', platform || ' ' || platform_server_id
    )), NULL
)::procrastinate_job_to_defer_v1]) FROM inbox WHERE id = :inbox_id
""")

# Keeps a worker that was frozen from taking the turn back from the worker that has continued it.
STILL_OURS = "EXISTS (SELECT FROM procrastinate_jobs WHERE id = :job_id AND status = 'doing')"

GIVE_UP = text(f"""
WITH blocking AS (
    SELECT id, turn_id FROM inbox
    WHERE place_key = (SELECT place_key FROM inbox WHERE id = :inbox_id) AND status IN ('waiting', 'claimed')
    ORDER BY turn_id IS NULL, sent_at, id LIMIT 1
), ended AS (
    UPDATE turns SET status = 'failed', finished = false, error = 'parked', cause = :cause, finished_at = now()
    FROM blocking WHERE turns.id = blocking.turn_id AND turns.status = 'running'
), failed AS (
    UPDATE inbox SET status = 'failed' FROM blocking
    WHERE inbox.id = blocking.id OR inbox.turn_id = blocking.turn_id RETURNING inbox.*
), reply AS (
    SELECT parley_add_reply(turn_id, jsonb_build_object(
        'adapter', adapter, 'platform', platform, 'server', platform_server_id, 'channel', platform_channel_id,
        'thread', platform_thread_id, 'place_key', place_key, 'is_direct', is_direct,
        'reply_to', coalesce(platform_message_id, platform_event_id), 'content', CAST(:sentence AS text)
    )) FROM (
        SELECT * FROM failed
        WHERE adapter <> ALL(:read_by_caller) AND NOT EXISTS (SELECT FROM outbox WHERE outbox.turn_id = failed.turn_id)
        ORDER BY id DESC LIMIT 1
    ) AS latest
), inbox_ids AS (
    SELECT json_agg(id) AS ids FROM failed HAVING count(*) > 0
)
SELECT pg_notify('{TURNS}', json_build_object('turn', 0, 'inbox', ids, 'end', true)::text),
       (SELECT count(*) FROM reply)
FROM inbox_ids
""")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The inbox row of an event; `is_new` is False if the event had been stored before."""

    inbox_id: int
    is_new: bool


async def accept(database: Database, message: IncomingMessage) -> Accepted:
    """Store an event once and queue its turn; acknowledge the event to the platform only after this returns.

    Raises `DatabaseLost` if it could not be stored, `EventIdInUse` if its id belongs to another person's message.
    """
    async with database.statement() as session:
        return _check(*await accept_all(session, [to_event(message)]))


async def accept_within(session: Session, message: IncomingMessage) -> bool:
    """Store an event once in the session's transaction, and queue its turn; return whether it is new."""
    (row,) = await accept_all(session, [to_event(message)])
    return bool(row.is_new)


async def accept_answered(database: Database, message: IncomingMessage) -> bool:
    """Store the arrival of an event that needs no turn, without its text; return whether it arrived the first time."""
    async with database.statement() as session:
        (row,) = await accept_all(session, [to_event(replace(message, content="")) | {"is_answered": True}])
    return bool(row.is_new)


async def accept_all(session: Session, events: Sequence[dict[str, Any]]) -> Sequence[Any]:
    """Store events once each, and queue their turns; return a row of `parley_accept` for each."""
    rows: Sequence[Any] = (await session.execute(ACCEPT, {"events": json.dumps(events)})).all()
    return rows


def _check(row: Any) -> Accepted:
    # A caller who reuses the event id of another person must not get that person's answer.
    if not row.is_same_sender:
        raise EventIdInUse
    return Accepted(row.inbox_id, is_new=row.is_new)


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
        return _check(await self._loader.load(message))

    async def _accept_all(self, messages: Sequence[IncomingMessage]) -> Sequence[Any]:
        events = [to_event(message) for message in messages]
        async with self._database.statement() as session:
            return await accept_all(session, events)


async def list_open(session: Session, job: Job) -> list[Waiting]:
    """Return the open messages of the job's place, in order; empty if another worker has taken over the job."""
    result = await session.execute(OPEN, {"job_id": job.id, "inbox_id": job.inbox_id})
    return [_to_waiting(row) for row in result.all()]


async def requeue_lost(session: Session) -> int:
    """Queue a job for every place that has open messages and no live job; return how many."""
    return len((await session.execute(REQUEUE_LOST)).all())


async def requeue(session: Session, inbox_id: int) -> None:
    """Queue a job for the place of this message again, because its worker stops."""
    await session.execute(REQUEUE, {"inbox_id": inbox_id})


async def give_up(session: Session, job: Job, sentence: str) -> None:
    """Mark the messages of the next turn of the job's place as failed, and notify the callers that wait for them.

    These are the oldest open messages, not necessarily the one that the job names. For adapters with a sender,
    `sentence` is stored as the reply and delivered by the sweeper.
    """
    parameters = {"cause": job.last_error, "sentence": sentence, "read_by_caller": sorted(READ_BY_CALLER)}
    await session.execute(GIVE_UP, {"inbox_id": job.inbox_id} | parameters)


def to_event(message: IncomingMessage) -> dict[str, Any]:
    """Convert a message to an event of `parley_accept`."""
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
        "attachments": clean_json([asdict(attachment) for attachment in message.attachments]),
        "wants_stream": message.wants_stream,
        "platform_context": clean_json(_without_typed(message.platform_context).to_row()),
        "sent_at": message.sent_at.isoformat() if message.sent_at else None,
        "decision": asdict(message.decision) if message.decision else None,
        "replied_to": _cleaned_or_none(message.replied_to),
        "again_of": message.again_of,
        "due_job": clean_json(asdict(message.due_job)) if message.due_job else None,
        "credentials": asdict(message.credentials) if message.credentials else None,
        "request": clean_json(without_typed_in(asdict(message.request))) if message.request else None,
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


# Platforms repeat earlier messages also after their persons asked to forget them.
PLATFORM_CONTEXT = """
CASE WHEN inbox.platform_context ? 'earlier' AND EXISTS (SELECT FROM forgotten_turns) THEN
    jsonb_set(inbox.platform_context, '{earlier}', coalesce((
        SELECT jsonb_agg(quoted ORDER BY place)
        FROM jsonb_array_elements(inbox.platform_context -> 'earlier') WITH ORDINALITY AS earlier (quoted, place)
        WHERE NOT EXISTS (
            SELECT FROM inbox AS stored JOIN forgotten_turns USING (turn_id)
            WHERE stored.platform = inbox.platform AND stored.platform_event_id = quoted ->> 'message_id'
        )
    ), '[]'))
ELSE inbox.platform_context END
"""
COLUMNS = (
    InboxMessage.id,
    InboxMessage.adapter,
    InboxMessage.platform,
    InboxMessage.platform_event_id,
    InboxMessage.platform_server_id,
    InboxMessage.platform_channel_id,
    InboxMessage.platform_thread_id,
    InboxMessage.is_direct,
    InboxMessage.platform_user_id,
    InboxMessage.platform_username,
    InboxMessage.platform_message_id,
    InboxMessage.content,
    InboxMessage.attachments,
    InboxMessage.wants_stream,
    literal_column(PLATFORM_CONTEXT, JSONB).label("platform_context"),
    InboxMessage.sent_at,
    InboxMessage.turn_id,
    InboxMessage.decision,
    InboxMessage.replied_to,
    InboxMessage.due_job,
    InboxMessage.credentials,
    InboxMessage.request,
)
ITS_ROW = (InboxMessage.id == bindparam("inbox_id"), text(STILL_OURS))
PLACE = select(InboxMessage.place_key).where(*ITS_ROW).scalar_subquery()
# Built once, because building the statement takes longer than running it.
OPEN = (
    select(*COLUMNS)
    .where(InboxMessage.place_key == PLACE, text("inbox.status IN ('waiting', 'claimed')"))
    # Messages of an interrupted turn come first, even before messages that were sent earlier but arrived later.
    .order_by(InboxMessage.turn_id.is_(None), InboxMessage.sent_at, InboxMessage.id)
    .limit(MAX_COALESCED * 2)
)


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
