"""The outbox: a reply is stored in the transaction that ends its turn, then delivered at once.

Callers of adapters without a sender (web, terminal, HTTP, A2A) read the answer themselves: committing it counts as the
delivery.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlalchemy import text

from shared.db.batching import BatchLoader
from shared.db.database import Database, DatabaseLost
from shared.db.driver import Session
from shared.errors import ClaimLost, Unavailable, Undeliverable
from shared.log import get_logger
from shared.messages import Place, ReplyFile
from shared.tracing.spans import Attributes, is_tracing, span, span_of

# The lease is renewed during a delivery; if the sender dies, another process can claim the reply after this time.
LEASE_SECONDS = 12
RENEW_SECONDS = 4
MAX_ATTEMPTS = 5
# The wait before the next attempt; a platform may ask for a longer one.
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 5, 600
# How long a claim is certain to be valid: half its lease, because the database counts it with another clock.
CERTAIN_SECONDS = LEASE_SECONDS / 2
BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

log = get_logger()

# What a `DeliveryInfo` holds of the turn whose id follows.
FIND_DELIVERY = """
SELECT coalesce(personas.allow_mentions, false) AS allows_mentions, turns.status AS turn_status,
       last.platform_user_id AS asker,
       last.edited_at IS NOT NULL AND position(last.content IN (
           SELECT content FROM messages WHERE messages.turn_id = turns.id AND seq = 0
       )) = 0 AS was_edited,
       turns.attempt > 1 AS was_resumed
FROM turns LEFT JOIN personas ON personas.id = turns.persona_id
LEFT JOIN LATERAL (
    SELECT platform_user_id, edited_at, content FROM inbox WHERE inbox.turn_id = turns.id ORDER BY id DESC LIMIT 1
) AS last ON true
WHERE turns.id ="""
CLAIM = text(f"""
WITH claimed AS (
    UPDATE outbox SET attempts = attempts + 1, status = CASE WHEN attempts < :most THEN 'claimed' ELSE 'failed' END,
        claimed_until = CASE WHEN attempts < :most THEN now() + :lease * interval '1 second' END,
        error = CASE WHEN attempts < :most THEN error ELSE coalesce(error, 'no delivery of it came to an end') END
    WHERE id IN (
        SELECT id FROM outbox
        WHERE status IN ('pending', 'claimed') AND door = ANY(:doors)
          -- No lease or wait lasts that long: the database's clock was set back since, and the sender may be dead.
          AND (coalesce(claimed_until, now()) <= now()
               OR status = 'claimed' AND claimed_until > now() + 2 * :lease * interval '1 second'
               OR claimed_until > now() + 2 * :longest_wait * interval '1 second')
        ORDER BY id LIMIT 20 FOR UPDATE SKIP LOCKED
    )
    RETURNING id, turn_id, door, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct,
              reply_to, live_message_id, content, files, choices, status, attempts
)
SELECT claimed.*, found.* FROM claimed LEFT JOIN LATERAL ({FIND_DELIVERY} claimed.turn_id) AS found ON true
""")

# `attempts` counts the claims of a reply: with an older number, another process has claimed it since.
RENEW = text("""
UPDATE outbox SET claimed_until = now() + :lease * interval '1 second'
WHERE id = :id AND status = 'claimed' AND attempts = :attempts
RETURNING id
""")

DELIVERED = text("""
UPDATE outbox SET status = 'delivered', delivered_at = now(), platform_message_id = sent.message_id,
    claimed_until = NULL
FROM unnest(CAST(:ids AS bigint[]), CAST(:message_ids AS text[])) AS sent (id, message_id)
WHERE outbox.id = sent.id AND status <> 'delivered'
""")

FAILED = text("""
UPDATE outbox SET status = CASE WHEN attempts >= :most THEN 'failed' ELSE 'pending' END, error = :error,
    claimed_until = CASE WHEN attempts >= :most THEN NULL ELSE now() + :wait * interval '1 second' END
WHERE id = :id AND status = 'claimed' AND attempts = :attempts
""")

MESSAGES = text("""
SELECT turn_id, min(id) AS inbox_id FROM inbox WHERE turn_id = ANY(CAST(:turn_ids AS bigint[])) GROUP BY turn_id
""")


def boot_seconds() -> float:
    """Return the seconds of a clock that never goes backwards, and that also runs while the machine is suspended."""
    return time.clock_gettime(BOOT_CLOCK)


@dataclass(slots=True)
class Claim:
    """This process's claim on a reply, the `number`-th one of that reply, made at `made_at` of `boot_seconds`.

    A process that was frozen may hold a claim that has expired, so senders call `check` just before they post.
    """

    database: Database
    reply_id: int
    number: int
    made_at: float

    async def check(self) -> None:
        """Make sure that no other process sends the reply; raises `ClaimLost` when one has claimed it.

        Asks the database only when the claim is not certain to be valid, so that this costs nothing as a rule.
        """
        if boot_seconds() - self.made_at > CERTAIN_SECONDS:
            await self.renew()

    async def renew(self) -> None:
        """Extend the claim; raises `ClaimLost` when another process has claimed the reply, or has delivered it."""
        now = boot_seconds()
        async with self.database.statement() as session:
            given = {"id": self.reply_id, "attempts": self.number, "lease": LEASE_SECONDS}
            if (await session.execute(RENEW, given)).one_or_none() is None:
                raise ClaimLost
        self.made_at = now


@dataclass(frozen=True, slots=True)
class DeliveryInfo:
    """What affects the delivery of a turn's reply; the defaults are those of a reply without a turn.

    `asker`: the platform's id of the user who wrote the last message. `was_edited`: that message was edited after the
    turn had begun. `was_resumed`: an attempt of the turn ended with its process, perhaps after it had posted.
    `live_message_id`: the platform's id of the message that showed the answer while it was written.
    """

    allows_mentions: bool = False
    status: str = "answered"
    asker: str | None = None
    was_edited: bool = False
    was_resumed: bool = False
    live_message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply and its destination; `turn_id` is 0 if no turn could begin. All delivery attempts use the same `nonce`.

    Senders check the `claim` before each post.
    """

    id: int
    turn_id: int
    adapter: str
    place: Place
    reply_to: str | None
    content: str
    files: tuple[ReplyFile, ...]
    choices: tuple[str, ...] = ()
    delivery: DeliveryInfo = field(default=DeliveryInfo(), compare=False)
    claim: Claim | None = field(default=None, compare=False, repr=False)

    @property
    def was_tried(self) -> bool:
        """Return whether an earlier delivery may have succeeded without being recorded."""
        return self.claim is not None and self.claim.number > 0

    @property
    def nonce(self) -> str:
        """Return the idempotency key, by which a platform recognises a reply that it has already received."""
        return f"parley-{self.id}"

    async def check_claim(self) -> None:
        """Call this just before the reply is posted; raises `ClaimLost` when another process sends it."""
        if self.claim is not None:
            await self.claim.check()


class ReplySender(Protocol):
    """Delivers the replies of one adapter."""

    async def send(self, reply: Reply) -> str | None:
        """Post the reply and return the platform's message id.

        Calls `reply.check_claim` just before each post, after all waits for rate limits. Raises `Unavailable` if the
        delivery should be retried, `Undeliverable` if it should not.
        """
        ...


Senders = Mapping[str, ReplySender]


class Outbox:
    """Delivers the replies of a process; deliveries that end while others are being recorded are recorded together."""

    def __init__(self, database: Database, senders: Senders) -> None:
        self.senders = senders
        self._database = database
        self._recording = BatchLoader(self._record)

    async def deliver(self, reply: Reply) -> None:
        """Send a reply that this process has claimed; a failure is recorded, and the sweeper retries it."""
        sender = self.senders.get(reply.adapter)
        if sender is None:
            await mark_failed(self._database, reply, "no sender in this process")
            return
        given: Attributes = {
            "parley.adapter": reply.adapter,
            "parley.turn.id": reply.turn_id,
            "parley.reply.id": reply.id,
        }
        try:
            with span(f"deliver {reply.adapter}", given, kind="client"):
                async with _kept_claim(reply):
                    await reply.check_claim()
                    message_id = await sender.send(reply)
        except ClaimLost:
            log.info("reply_sent_by_another_process", reply=reply.id)
        except Unavailable as error:
            log.warning("delivery_failed", reply=reply.id, adapter=reply.adapter, cause=str(error.__cause__ or error))
            await mark_failed(self._database, reply, str(error), wait=error.retry_after or 0)
        except Undeliverable as error:
            log.error("reply_undeliverable", reply=reply.id, adapter=reply.adapter, cause=str(error))
            await mark_failed(self._database, reply, str(error), is_final=True)
        else:
            await self._recording.load((reply.id, message_id))

    async def sweep(self) -> None:
        """Deliver the replies that earlier deliveries have left open, for the adapters that have a sender here."""
        if not self.senders:
            return
        claimed_at = boot_seconds()
        async with self._database.transaction() as session:
            claimed = await claim(session, list(self.senders))
            first = await _find_messages(session, [reply.turn_id for reply, _ in claimed]) if is_tracing() else {}
        replies = [
            replace(reply, claim=Claim(self._database, reply.id, number, made_at=claimed_at))
            for reply, number in claimed
        ]
        delivering = (self._deliver_again(reply, inbox_id=first.get(reply.turn_id)) for reply in replies)
        for outcome in await asyncio.gather(*delivering, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _deliver_again(self, reply: Reply, inbox_id: int | None) -> None:
        given = {"parley.turn.id": reply.turn_id}
        with nullcontext() if inbox_id is None else span_of(inbox_id, "deliver_again", given):
            await self.deliver(reply)

    async def _record(self, sent: Sequence[tuple[int, str | None]]) -> list[None]:
        # The platform has accepted these replies.
        ids, message_ids = zip(*sent, strict=True)
        async with self._database.statement() as session:
            await session.execute(DELIVERED, {"ids": list(ids), "message_ids": list(message_ids)})
        return [None] * len(sent)


@asynccontextmanager
async def _kept_claim(reply: Reply) -> AsyncIterator[None]:
    renewing = asyncio.create_task(_renew(reply.claim), name="claim") if reply.claim is not None else None
    try:
        yield
    finally:
        if renewing is not None:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)


async def _renew(claim: Claim) -> None:
    # Ends when the claim is lost; then `Claim.check` finds that out as well.
    with suppress(ClaimLost):
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(DatabaseLost):
                await claim.renew()


async def mark_failed(database: Database, reply: Reply, error: str, *, is_final: bool = False, wait: float = 0) -> None:
    """Record why a delivery failed; after the last attempt, or with `is_final`, the reply is not retried.

    `wait` is for how many seconds the platform wants to be left alone. No effect when another process has claimed the
    reply.
    """
    given = {
        "id": reply.id,
        "attempts": reply.claim.number if reply.claim is not None else 0,
        "error": error,
        "most": 0 if is_final else MAX_ATTEMPTS,
        "wait": min(LONGEST_RETRY_SECONDS, max(RETRY_SECONDS, wait)),
    }
    async with database.transaction() as session:
        await session.execute(FAILED, given)


async def claim(session: Session, adapters: Sequence[str]) -> list[tuple[Reply, int]]:
    """Claim up to 20 replies whose sender died or failed, for these adapters; return them with the claim's number.

    A reply without attempts left is marked as failed instead.
    """
    given = {
        "doors": list(adapters),
        "lease": LEASE_SECONDS,
        "longest_wait": LONGEST_RETRY_SECONDS,
        "most": MAX_ATTEMPTS,
    }
    rows = (await session.execute(CLAIM, given)).all()
    found = ((_find_reply(row), row.attempts) for row in rows if row.status == "claimed")
    return [(reply, attempts) for reply, attempts in found if reply is not None]


def _find_reply(row: Any) -> Reply | None:
    """Return the reply of a row; None if it can't be read, so that the others of its batch are sent."""
    try:
        return to_reply(row)
    except (TypeError, ValueError, KeyError) as error:
        log.error("reply_unreadable", reply=row.id, adapter=row.door, cause=repr(error))
        return None


async def _find_messages(session: Session, turn_ids: Sequence[int]) -> dict[int, int]:
    # The first inbox row of each turn, which names its trace.
    rows = (await session.execute(MESSAGES, {"turn_ids": list(turn_ids)})).all()
    return {row.turn_id: row.inbox_id for row in rows}


def to_reply(row: Any) -> Reply:
    """Return the reply of an outbox row whose earlier delivery is unfinished."""
    place = Place.from_row(row)
    files = tuple(ReplyFile(**each) for each in row.files)
    return Reply(
        id=row.id,
        turn_id=row.turn_id or 0,
        adapter=row.door,
        place=place,
        reply_to=row.reply_to,
        content=row.content,
        files=files,
        choices=tuple(row.choices),
        delivery=to_delivery(row, row.turn_status) if row.turn_id else DeliveryInfo(),
    )


def to_delivery(row: Any, status: str) -> DeliveryInfo:
    """Return the delivery info of a row of `FIND_DELIVERY`, for a turn that ends with this status."""
    return DeliveryInfo(
        allows_mentions=row.allows_mentions,
        status=status,
        asker=row.asker,
        was_edited=row.was_edited,
        was_resumed=row.was_resumed,
        live_message_id=row.live_message_id,
    )
