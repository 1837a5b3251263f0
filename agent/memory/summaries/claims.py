"""Which conversation is summarised next, by whom, and what becomes of it: one worker at a time, by a lease.

A worker that dies loses its lease, and another one begins again from the transcript. Whatever a worker writes after its
lease has ended, or after a summary was withdrawn, is not stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from agent.people.billing.budget import PaidCall, to_json
from shared.db.driver import Session
from shared.messages import Place

# A conversation is over for now when nothing was said for so long.
IDLE_MINUTES = 30
LEASE_SECONDS = 180
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 60, 6 * 3600
MAX_ERROR_CHARS = 500

CLAIM = text(f"""
WITH due AS (
    SELECT id FROM conversations
    WHERE summary_due_at <= now() AND (summary_claimed_until IS NULL OR summary_claimed_until < now())
    ORDER BY summary_due_at LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE conversations SET summary_claimed_until = clock_timestamp() + interval '{LEASE_SECONDS} seconds' FROM due
WHERE conversations.id = due.id
RETURNING conversations.id, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct, user_id,
          summary, summarized_turn_id, summary_claimed_until AS lease, last_active_at, summary_error AS error,
          summary_is_urgent OR last_active_at <= now() - interval '{IDLE_MINUTES} minutes' AS is_wanted,
          coalesce(
              (SELECT tokens FROM budget_reservations AS held WHERE held.conversation_id = conversations.id), 0
          ) AS tokens_held
""")
# A conversation stays due when a turn is running, or is just about to begin: that one has set `last_active_at`.
NEXT_LOOK = f"greatest(last_active_at + interval '{IDLE_MINUTES} minutes', now() + interval '1 minute')"
STORE = text(f"""
WITH stored AS (
    UPDATE conversations SET summary = :content, summarized_turn_id = :last_turn_id, summary_claimed_until = NULL,
        is_summarized = NOT :has_more AND last_active_at = :last_active_at AND NOT later.is_there,
        summary_is_urgent = :has_more,
        summary_due_at = CASE WHEN :has_more THEN now()
                              WHEN last_active_at <> :last_active_at OR later.is_there THEN {NEXT_LOOK} END,
        summary_failures = 0, summary_error = NULL, facts_turn_id = greatest(facts_turn_id, :last_turn_id),
        facts_failures = 0, facts_retry_at = NULL
    FROM (SELECT EXISTS (
        SELECT FROM turns WHERE conversation_id = :id AND id > :last_turn_id AND parent_turn_id IS NULL
    ) AS is_there) AS later
    WHERE id = :id AND summary_claimed_until = :lease
    RETURNING id
)
INSERT INTO summaries (conversation_id, last_turn_id, content, model)
SELECT id, :last_turn_id, :content, :model FROM stored
ON CONFLICT (conversation_id, last_turn_id) DO UPDATE SET content = excluded.content, model = excluded.model
RETURNING id
""")
# Nothing new was said: the summary, if there is one, holds everything.
CLOSE = text(f"""
UPDATE conversations SET summary_claimed_until = NULL, summary_is_urgent = false,
    is_summarized = summary IS NOT NULL AND last_active_at = :last_active_at AND NOT running.is_there,
    summary_due_at = CASE WHEN last_active_at <> :last_active_at OR running.is_there THEN {NEXT_LOOK} END
FROM (SELECT EXISTS (
    SELECT FROM turns WHERE conversation_id = :id AND status = 'running' AND parent_turn_id IS NULL
) AS is_there) AS running
WHERE id = :id AND summary_claimed_until = :lease
""")
POSTPONE = text(f"""
UPDATE conversations SET summary_claimed_until = NULL,
    summary_due_at = {NEXT_LOOK}
WHERE id = :id AND summary_claimed_until = :lease
""")
FAIL = text(f"""
UPDATE conversations SET summary_claimed_until = NULL, summary_failures = summary_failures + 1, summary_error = :error,
    summary_due_at = now() + interval '1 second'
        * least({LONGEST_WAIT_SECONDS}, {FIRST_WAIT_SECONDS} * 2.0 ^ least(summary_failures, 16))
WHERE id = :id AND summary_claimed_until = :lease
RETURNING summary_failures
""")
CHARGE = text("""
SELECT * FROM parley_charge_summary(
    p_conversation_id => :id, p_lease => :lease, p_calls => :calls, p_hold => :hold, p_cost => CAST(:cost AS numeric)
)
""")
# Locks the conversation, so that nobody claims it between this and the payment.
IS_OURS = text("SELECT id FROM conversations WHERE id = :id AND summary_claimed_until = :lease FOR NO KEY UPDATE")
FORGET = text("SELECT parley_forget_summaries(p_turn_ids => :turn_ids)")


@dataclass(frozen=True, slots=True)
class Claim:
    """A conversation that this worker summarises until `lease`, with the summary it has.

    `is_wanted` is False when people are still talking. `user_id` is whose turns are summarised in a direct
    conversation. `error` is why the last attempt failed. `tokens_held` is what a worker held that died during its model
    call.
    """

    id: int
    place: Place
    user_id: int | None
    summary: str | None
    summarized_turn_id: int
    lease: datetime
    last_active_at: datetime
    error: str | None
    is_wanted: bool
    tokens_held: int = 0

    @property
    def key(self) -> dict[str, Any]:
        """Return the parameters that find the conversation as long as the lease is ours."""
        return {"id": self.id, "lease": self.lease}


@dataclass(frozen=True, slots=True)
class NewSummary:
    """A summary of what was said up to `last_turn_id`; `model` is None when it was extracted."""

    content: str
    last_turn_id: int
    model: str | None
    has_more: bool = False


async def claim(session: Session, limit: int) -> list[Claim]:
    """Claim up to `limit` conversations that are due."""
    rows = (await session.execute(CLAIM, {"limit": limit})).all()
    return [Claim(row[0], Place(*row[1:6]), *row[6:]) for row in rows]


async def store(session: Session, claimed: Claim, new: NewSummary) -> bool:
    """Store the summary and end the claim; returns False, without a change, when the lease has been lost."""
    parameters = claimed.key | {
        "content": new.content,
        "last_turn_id": new.last_turn_id,
        "model": new.model,
        "has_more": new.has_more,
        "last_active_at": claimed.last_active_at,
    }
    return bool((await session.execute(STORE, parameters)).all())


async def close(session: Session, claimed: Claim) -> None:
    """End the claim of a conversation in which there is nothing to summarise."""
    await session.execute(CLOSE, claimed.key | {"last_active_at": claimed.last_active_at})


async def postpone(session: Session, claimed: Claim) -> None:
    """End the claim until nothing will have been said for `IDLE_MINUTES`."""
    await session.execute(POSTPONE, claimed.key)


async def fail(session: Session, claimed: Claim, error: str) -> None:
    """End the claim and note why there is no summary; the next attempt waits twice as long as the one before."""
    await session.execute(FAIL, claimed.key | {"error": error[:MAX_ERROR_CHARS]})


async def hold(session: Session, claimed: Claim, tokens: int, *, cost: float | None) -> bool:
    """Hold tokens and US dollars for a model call; returns False when a limit refuses it or the lease is lost."""
    parameters = claimed.key | {"calls": "[]", "hold": tokens, "cost": cost}
    return bool((await session.execute(CHARGE, parameters)).one().admitted)


async def pay(session: Session, claimed: Claim, calls: Sequence[PaidCall]) -> None:
    """Write model calls to the ledger, and give back what is held; needs a transaction.

    A worker that was frozen until its lease was lost writes nothing: who claims the conversation after it charges the
    call as an estimate, and a call is paid once.
    """
    if not (await session.execute(IS_OURS, claimed.key)).all():
        return
    await session.execute(CHARGE, claimed.key | {"calls": to_json(calls), "hold": None, "cost": None})


async def forget_summaries(session: Session, turn_ids: Iterable[int | None]) -> None:
    """Withdraw the summaries made of these turns, whose text has changed, and ask for new ones at once."""
    ids = [turn_id_ for turn_id_ in turn_ids if turn_id_ is not None]
    if ids:
        await session.execute(FORGET, {"turn_ids": ids})
