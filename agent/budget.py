"""What a user may spend: reserved before each model call, settled with its answer, released when abandoned.

`used + reserved < budget` admits a call; the reservation is an upper estimate. So the overrun is one call at the most,
however many run at once. `budget_reset_at` is the END of the period: the first statement after it starts a new one.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from sqlalchemy import text

from shared.driver import Session
from shared.errors import BudgetBusy, BudgetExhausted, Refusal, Superseded

# Columns of a user's row as they are in the period that runs now.
PERIOD = """
    CASE WHEN budget_reset_at <= now() THEN 0 ELSE tokens_used_this_month END AS used,
    CASE WHEN budget_reset_at <= now()
         THEN budget_reset_at + interval '30 days' * (1 + floor(extract(epoch FROM now() - budget_reset_at) / 2592000))
         ELSE budget_reset_at END AS resets_at
"""

# A lock of its own for each user's money.
GATE = "hashtextextended('budget ' || user_id, 0)"

# Order of locks, everywhere: the turn, the user's gate, the user, the reservations. Whoever waited for the row itself
# would stand in the way of the one that holds it: a statement that locks a row and then changes it comes upon the
# version that it saw first, and takes its place in the line again. NO KEY, because the rows of new turns refer to it.
# It goes on from `fenced`: the turn, if it is still this attempt's.
HOLD = f"""
gate AS MATERIALIZED (
    SELECT user_id, pg_advisory_xact_lock({GATE}) FROM fenced
), payer AS (
    SELECT users.id, token_budget_monthly AS budget, tokens_reserved AS reserved, {PERIOD}
    FROM users JOIN gate ON users.id = gate.user_id FOR NO KEY UPDATE OF users
), verdict AS (
    SELECT payer.*, budget IS NULL OR used + reserved < budget AS admitted FROM payer
), held AS (
    INSERT INTO budget_reservations (user_id, turn_id, tokens, expires_at)
    SELECT id, :turn_id, :tokens, now() + :seconds * interval '1 second' FROM verdict WHERE admitted
), changed AS (
    UPDATE users SET tokens_used_this_month = used, budget_reset_at = resets_at,
        tokens_reserved = tokens_reserved + CASE WHEN admitted THEN :tokens ELSE 0 END
    FROM verdict WHERE users.id = verdict.id
)"""
RESERVE = text(f"""
WITH fenced AS (
    SELECT id, CAST(:user_id AS bigint) AS user_id FROM turns
    WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
), {HOLD}
SELECT admitted, used, budget, resets_at FROM verdict
""")

# Joined to the journal's statement, which brings `fenced`: one round trip records, pays and reserves.
SETTLE = f"""
ledger AS (
    INSERT INTO token_logs (user_id, conversation_id, turn_id, purpose, model,
                            input_tokens, cached_tokens, output_tokens, cost_estimate)
    SELECT fenced.user_id, fenced.conversation_id, fenced.id, call.purpose, call.model,
           call.input_tokens, call.cached_tokens, call.output_tokens, call.cost
    FROM fenced, jsonb_to_recordset(CAST(:calls AS jsonb)) AS call
        (purpose text, model text, input_tokens int, cached_tokens int, output_tokens int, cost numeric)
), gate AS MATERIALIZED (
    SELECT pg_advisory_xact_lock({GATE}) FROM fenced
), payer AS (
    SELECT users.id, token_budget_monthly AS budget, tokens_reserved AS reserved, {PERIOD}
    FROM users JOIN fenced ON users.id = fenced.user_id, gate FOR NO KEY UPDATE OF users
), given_back AS (
    DELETE FROM budget_reservations USING payer
    WHERE budget_reservations.turn_id = :turn_id RETURNING budget_reservations.tokens
), verdict AS (
    SELECT payer.*, used + :spent AS used_now, greatest(0, reserved - coalesce(given, 0)) AS reserved_now,
           :reserve > 0 AND (budget IS NULL OR used + :spent + reserved - coalesce(given, 0) < budget) AS admitted
    FROM payer, (SELECT sum(tokens) AS given FROM given_back) AS sums
), held AS (
    INSERT INTO budget_reservations (user_id, turn_id, tokens, expires_at)
    SELECT id, :turn_id, :reserve, now() + :seconds * interval '1 second' FROM verdict WHERE admitted
    ON CONFLICT (turn_id) DO UPDATE SET tokens = excluded.tokens, expires_at = excluded.expires_at
), paid AS (
    UPDATE users SET tokens_used_this_month = used_now, budget_reset_at = resets_at,
        tokens_reserved = reserved_now + CASE WHEN admitted THEN :reserve ELSE 0 END
    FROM verdict WHERE users.id = verdict.id
)"""

RELEASE = text(f"""
WITH gate AS MATERIALIZED (
    SELECT user_id, pg_advisory_xact_lock({GATE}) FROM turns WHERE id = :turn_id
), payer AS (
    SELECT users.id FROM users JOIN gate ON gate.user_id = users.id FOR NO KEY UPDATE OF users
), given_back AS (
    DELETE FROM budget_reservations USING payer WHERE budget_reservations.turn_id = :turn_id
    RETURNING budget_reservations.tokens
)
UPDATE users SET tokens_reserved = greatest(0, tokens_reserved - tokens)
FROM payer, given_back WHERE users.id = payer.id
""")

EXPIRE = text(f"""
WITH late AS MATERIALIZED (
    SELECT DISTINCT user_id FROM budget_reservations WHERE expires_at < now() ORDER BY user_id
), gates AS MATERIALIZED (
    SELECT user_id, pg_advisory_xact_lock({GATE}) FROM late
), payers AS (
    SELECT id FROM users JOIN gates ON gates.user_id = users.id ORDER BY id FOR NO KEY UPDATE OF users
), given_back AS (
    DELETE FROM budget_reservations USING payers
    WHERE budget_reservations.user_id = payers.id AND expires_at < now()
    RETURNING budget_reservations.user_id, budget_reservations.tokens
)
UPDATE users SET tokens_reserved = greatest(0, tokens_reserved - sums.tokens)
FROM (SELECT user_id, sum(tokens) AS tokens FROM given_back GROUP BY user_id) AS sums WHERE users.id = sums.user_id
""")

READ = text(f"""
SELECT token_budget_monthly AS budget, tokens_reserved AS reserved, {PERIOD} FROM users WHERE id = :user_id
""")


class Admission(Enum):
    """What the budget says to one more model call."""

    ADMITTED = auto()
    # What was held has been given back: nobody has been asked since.
    UNASKED = auto()
    BUSY = auto()
    EXHAUSTED = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """An admission with the day on which the budget renews."""

    admission: Admission
    renews_on: datetime

    @property
    def is_admitted(self) -> bool:
        """Return whether the call may be made."""
        return self.admission is Admission.ADMITTED

    def refusal(self) -> Refusal:
        """Return the sentence for the person."""
        if self.admission is Admission.EXHAUSTED:
            return BudgetExhausted(renews_on=self.renews_on)
        return BudgetBusy()


@dataclass(frozen=True, slots=True)
class Standing:
    """A user's budget at this moment, in tokens; `limit` None means unlimited."""

    limit: int | None
    used: int
    reserved: int
    renews_on: datetime


def to_verdict(admitted: bool, used: int, budget: int | None, renews_on: datetime) -> Verdict:
    """Return the verdict; exhausted is said only when what was really used has reached the budget."""
    if admitted:
        return Verdict(Admission.ADMITTED, renews_on)
    is_exhausted = budget is not None and used >= budget
    return Verdict(Admission.EXHAUSTED if is_exhausted else Admission.BUSY, renews_on)


async def reserve(session: Session, user_id: int, turn_id: int, attempt: int, tokens: int, seconds: float) -> Verdict:
    """Hold `tokens` for the turn's next model call, for `seconds` at the most, if the budget admits it.

    Raises `Superseded` when another attempt runs the turn.
    """
    given = {"user_id": user_id, "turn_id": turn_id, "attempt": attempt, "tokens": tokens, "seconds": seconds}
    row = (await session.execute(RESERVE, given)).one_or_none()
    if row is None:
        raise Superseded
    return to_verdict(row.admitted, row.used, row.budget, row.resets_at)


async def release(session: Session, turn_id: int) -> None:
    """Give back what the turn holds."""
    await session.execute(RELEASE, {"turn_id": turn_id})


async def release_expired(session: Session) -> None:
    """Give back what dead turns hold."""
    await session.execute(EXPIRE)


async def get_standing(session: Session, user_id: int) -> Standing:
    """Return how a user's budget stands."""
    row = (await session.execute(READ, {"user_id": user_id})).one()
    return Standing(limit=row.budget, used=row.used, reserved=row.reserved, renews_on=row.resets_at)
