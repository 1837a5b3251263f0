"""Stored before it is sent: a reply is decided in the transaction that ends its turn, then delivered at once.

Doors without a sender (web, terminal, HTTP) are read by their callers: for them the commit is the delivery.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import text

from agent.app import App, Sender
from agent.queue.inbox import READ_BY_CALLER
from shared.db.database import Database, DatabaseLost
from shared.db.driver import Session
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger
from shared.messages import Place, ReplyFile

# Renewed while a delivery lasts; a reply whose sender died is taken by another after this.
LEASE_SECONDS = 12
RENEW_SECONDS = 4
MAX_ATTEMPTS = 5
RETRY_SECONDS = 5

log = get_logger()

ENQUEUE = """
replied AS (
    INSERT INTO outbox (turn_id, door, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct,
                        reply_to, live_message_id, content, files, choices, status, claimed_until, attempts,
                        delivered_at)
    SELECT fenced.id, :door, :platform, :server, :channel, :thread, :is_direct, :reply_to, fenced.live_message_id,
           :content, CAST(:files AS jsonb), CAST(:choices AS jsonb), CAST(:outbox_status AS text),
           CASE WHEN :outbox_status = 'claimed' THEN now() + :lease * interval '1 second' END, 0,
           CASE WHEN :outbox_status = 'delivered' THEN now() END
    FROM fenced RETURNING id
)"""

CLAIM = text("""
UPDATE outbox SET attempts = attempts + 1, status = CASE WHEN attempts < :most THEN 'claimed' ELSE 'failed' END,
    claimed_until = CASE WHEN attempts < :most THEN now() + :lease * interval '1 second' END,
    error = CASE WHEN attempts < :most THEN error ELSE coalesce(error, 'no delivery of it came to an end') END
WHERE id IN (
    SELECT id FROM outbox
    WHERE status IN ('pending', 'claimed') AND coalesce(claimed_until, now()) <= now() AND door = ANY(:doors)
    ORDER BY id LIMIT 20 FOR UPDATE SKIP LOCKED
)
RETURNING id, turn_id, door, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct,
          reply_to, live_message_id, content, files, choices, status,
          (SELECT confirmations.id FROM confirmations WHERE confirmations.turn_id = outbox.turn_id) AS confirmation_id
""")

RENEW = text("""
UPDATE outbox SET claimed_until = now() + :lease * interval '1 second' WHERE id = :id AND status = 'claimed'
""")

DELIVERED = text("""
UPDATE outbox SET status = 'delivered', delivered_at = now(), platform_message_id = :message_id, claimed_until = NULL
WHERE id = :id AND status <> 'delivered'
""")

FAILED = text("""
UPDATE outbox SET status = CASE WHEN attempts >= :most THEN 'failed' ELSE 'pending' END, error = :error,
    claimed_until = CASE WHEN attempts >= :most THEN NULL ELSE now() + :wait * interval '1 second' END
WHERE id = :id AND status = 'claimed'
""")


@dataclass(frozen=True, slots=True)
class Reply:
    """What is to be said, and where; `turn_id` 0: no turn could begin. `nonce` is that of every attempt at it.

    With a `confirmation_id` it is a question, and a click on one of its `choices` is the `Decision` on that id.
    `was_tried`: another delivery of it may have come to its end without anybody noting so.
    """

    id: int
    turn_id: int
    adapter: str
    place: Place
    reply_to: str | None
    live_message_id: str | None
    content: str
    files: tuple[ReplyFile, ...]
    choices: tuple[str, ...] = ()
    confirmation_id: int | None = None
    was_tried: bool = False

    @property
    def nonce(self) -> str:
        """Return what tells a platform that it has this reply already."""
        return f"parley-{self.id}"


def to_row(
    adapter: str,
    place: Place,
    reply_to: str | None,
    content: str,
    files: Sequence[ReplyFile],
    choices: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the parameters of `ENQUEUE`."""
    return {
        "door": adapter,
        "platform": place.platform,
        "server": place.server,
        "channel": place.channel,
        "thread": place.thread,
        "is_direct": place.is_direct,
        "reply_to": reply_to,
        "content": content,
        "files": json.dumps([asdict(each) for each in files]),
        "choices": json.dumps(list(choices)),
        "outbox_status": "delivered" if adapter in READ_BY_CALLER else "claimed",
        "lease": LEASE_SECONDS,
    }


async def deliver(app: App, reply: Reply) -> None:
    """Send a reply that this process holds the claim of; a failure is noted and tried again by the sweeper."""
    sender = app.senders.get(reply.adapter)
    if reply.adapter in READ_BY_CALLER:
        return
    if sender is None:
        await mark_failed(app.database, reply.id, "no sender in this process")
        return
    try:
        async with _kept_claim(app.database, reply.id):
            message_id = await sender.send(reply)
    except Unavailable as error:
        log.warning("delivery_failed", reply=reply.id, adapter=reply.adapter, cause=str(error.__cause__ or error))
        await mark_failed(app.database, reply.id, str(error))
        return
    except Undeliverable as error:
        log.error("reply_undeliverable", reply=reply.id, adapter=reply.adapter, cause=str(error))
        await mark_failed(app.database, reply.id, str(error), is_final=True)
        return
    await mark_delivered(app.database, reply.id, message_id)


@asynccontextmanager
async def _kept_claim(database: Database, reply_id: int) -> AsyncIterator[None]:
    renewing = asyncio.create_task(_renew(database, reply_id), name="claim")
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def _renew(database: Database, reply_id: int) -> None:
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        with suppress(DatabaseLost):
            async with database.transaction() as session:
                await session.execute(RENEW, {"id": reply_id, "lease": LEASE_SECONDS})


async def mark_delivered(database: Database, reply_id: int, message_id: str | None) -> None:
    """Note that the platform took the reply."""
    async with database.statement() as session:
        await session.execute(DELIVERED, {"id": reply_id, "message_id": message_id})


async def mark_failed(database: Database, reply_id: int, error: str, *, is_final: bool = False) -> None:
    """Note why a delivery failed; after the last attempt the reply stays failed for the operator."""
    given = {"id": reply_id, "error": error, "most": 0 if is_final else MAX_ATTEMPTS, "wait": RETRY_SECONDS}
    async with database.transaction() as session:
        await session.execute(FAILED, given)


async def claim(session: Session, adapters: Sequence[str]) -> list[Reply]:
    """Take replies whose sender died or failed, for the doors that this process can send by.

    One that has brought down or outlived every sender so far is set aside as failed.
    """
    given = {"doors": list(adapters), "lease": LEASE_SECONDS, "most": MAX_ATTEMPTS}
    rows = (await session.execute(CLAIM, given)).all()
    return [to_reply(row) for row in rows if row.status == "claimed"]


async def sweep(app: App) -> None:
    """Deliver what others left over."""
    if not app.senders:
        return
    async with app.database.transaction() as session:
        replies = await claim(session, list(app.senders))
    outcomes = await asyncio.gather(*(deliver(app, reply) for reply in replies), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def to_reply(row: Any) -> Reply:
    """Return the reply of an outbox row that another sender left over."""
    place = Place(row.platform, row.platform_server_id, row.platform_channel_id, row.platform_thread_id, row.is_direct)
    files = tuple(ReplyFile(**each) for each in row.files)
    said = (row.content, files, tuple(row.choices), row.confirmation_id)
    return Reply(row.id, row.turn_id or 0, row.door, place, row.reply_to, row.live_message_id, *said, was_tried=True)


__all__ = [
    "ENQUEUE",
    "Reply",
    "Sender",
    "claim",
    "deliver",
    "mark_delivered",
    "mark_failed",
    "sweep",
    "to_reply",
    "to_row",
]
