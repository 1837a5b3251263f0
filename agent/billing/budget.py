"""What a user may spend: reserved before each model call, settled with its answer, released when abandoned.

`used + reserved < budget` admits a call, of the person and of the server alike; the reservation is an upper estimate.
So the overrun is one call at the most, however many run at once. `budget_reset_at` is the END of the period: the first
statement after it starts a new one.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

from sqlalchemy import text

from shared.db.driver import Session
from shared.errors import BudgetBusy, BudgetExhausted, Refusal, ServerBudgetExhausted, Superseded
from shared.messages import Place

# Columns of a user's row as they are in the period that runs now.
PERIOD = """
    CASE WHEN budget_reset_at <= now() THEN 0 ELSE tokens_used_this_month END AS used,
    CASE WHEN budget_reset_at <= now()
         THEN budget_reset_at + interval '30 days' * (1 + floor(extract(epoch FROM now() - budget_reset_at) / 2592000))
         ELSE budget_reset_at END AS resets_at
"""

# What a person's roles give counts when it is more than the person's own.
BUDGET = "CASE WHEN token_budget_monthly IS NOT NULL THEN greatest(token_budget_monthly, budget_from_roles) END"

# A lock of its own for each user's money, and for each server's.
GATE = "hashtextextended('budget ' || user_id, 0)"
SERVER_GATE = "hashtextextended('server budget ' || servers.id, 0)"

# Order of locks, everywhere: the turn, the user's gate, the user, the reservations. Whoever waited for the row itself
# would stand in the way of the one that holds it: a statement that locks a row and then changes it comes upon the
# version that it saw first, and takes its place in the line again. NO KEY, because the rows of new turns refer to it.
# A server's gate and row come after those of its member.
SERVER_BUDGET = f"""
server_gate AS MATERIALIZED (
    SELECT servers.id, pg_advisory_xact_lock({SERVER_GATE})
    FROM payer, fenced JOIN conversations ON conversations.id = fenced.conversation_id
    JOIN servers USING (platform, platform_server_id)
), pot AS (
    SELECT servers.id, token_budget_monthly AS budget, tokens_reserved AS reserved, {PERIOD}
    FROM servers JOIN server_gate ON servers.id = server_gate.id FOR NO KEY UPDATE OF servers
)"""
# Both must admit; what is told is the person's standing, or the server's when that alone refuses.
SHOWN_STATUS = """
own_admits AND pot_admits AS admitted, own_admits AND NOT pot_admits AS by_server,
CASE WHEN own_admits AND NOT pot_admits THEN pot.used ELSE payer.used END AS used,
CASE WHEN own_admits AND NOT pot_admits THEN pot.budget ELSE payer.budget END AS budget,
CASE WHEN own_admits AND NOT pot_admits THEN pot.resets_at ELSE payer.resets_at END AS resets_at
"""
# It goes on from `fenced`: the turn, if it is still this attempt's.
HOLD = f"""
gate AS MATERIALIZED (
    SELECT user_id, pg_advisory_xact_lock({GATE}) FROM fenced
), payer AS (
    SELECT users.id, {BUDGET} AS budget, tokens_reserved AS reserved, {PERIOD}
    FROM users JOIN gate ON users.id = gate.user_id FOR NO KEY UPDATE OF users
), {SERVER_BUDGET}, verdict AS (
    SELECT payer.id, payer.used AS own_used, payer.resets_at AS own_resets_at,
           pot.id AS server_id, pot.used AS server_used, pot.resets_at AS server_resets_at, {SHOWN_STATUS}
    FROM payer LEFT JOIN pot ON true CROSS JOIN LATERAL (
        SELECT payer.budget IS NULL OR payer.used + payer.reserved < payer.budget AS own_admits,
               pot.budget IS NULL OR pot.used + pot.reserved < pot.budget AS pot_admits
    ) AS both_of_them
), held AS (
    INSERT INTO budget_reservations (user_id, turn_id, tokens, expires_at, server_id)
    SELECT id, :turn_id, :tokens, now() + :seconds * interval '1 second', server_id FROM verdict WHERE admitted
), changed AS (
    UPDATE users SET tokens_used_this_month = own_used, budget_reset_at = own_resets_at,
        tokens_reserved = tokens_reserved + CASE WHEN admitted THEN :tokens ELSE 0 END
    FROM verdict WHERE users.id = verdict.id
), pot_changed AS (
    UPDATE servers SET tokens_used_this_month = server_used, budget_reset_at = server_resets_at,
        tokens_reserved = tokens_reserved + CASE WHEN admitted THEN :tokens ELSE 0 END
    FROM verdict WHERE servers.id = verdict.server_id
)"""
RESERVE = text(f"""
WITH fenced AS (
    SELECT id, conversation_id, CAST(:user_id AS bigint) AS user_id FROM turns
    WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
), {HOLD}
SELECT admitted, by_server, used, budget, resets_at FROM verdict
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
    SELECT users.id, {BUDGET} AS budget, tokens_reserved AS reserved, {PERIOD}
    FROM users JOIN fenced ON users.id = fenced.user_id, gate FOR NO KEY UPDATE OF users
), {SERVER_BUDGET}, given_back AS (
    DELETE FROM budget_reservations USING payer
    WHERE budget_reservations.turn_id = :turn_id
    RETURNING budget_reservations.tokens, budget_reservations.server_id
), verdict AS (
    SELECT payer.id, payer.used + :spent AS own_used, payer.resets_at AS own_resets_at, own_reserved,
           pot.id AS server_id, pot.used + :spent AS server_used, pot.resets_at AS server_resets_at, pot_reserved,
           {SHOWN_STATUS}
    FROM payer LEFT JOIN pot ON true CROSS JOIN LATERAL (
        SELECT greatest(0, payer.reserved - coalesce(sum(tokens), 0)) AS own_reserved,
               greatest(0, pot.reserved - coalesce(sum(tokens) FILTER (WHERE server_id = pot.id), 0)) AS pot_reserved
        FROM given_back
    ) AS left_over CROSS JOIN LATERAL (
        SELECT :reserve > 0
               AND (payer.budget IS NULL OR payer.used + :spent + own_reserved < payer.budget) AS own_admits,
               pot.budget IS NULL OR pot.used + :spent + pot_reserved < pot.budget AS pot_admits
    ) AS both_of_them
), held AS (
    INSERT INTO budget_reservations (user_id, turn_id, tokens, expires_at, server_id)
    SELECT id, :turn_id, :reserve, now() + :seconds * interval '1 second', server_id FROM verdict WHERE admitted
    ON CONFLICT (turn_id) DO UPDATE
    SET tokens = excluded.tokens, expires_at = excluded.expires_at, server_id = excluded.server_id
), paid AS (
    UPDATE users SET tokens_used_this_month = own_used, budget_reset_at = own_resets_at,
        tokens_reserved = own_reserved + CASE WHEN admitted THEN :reserve ELSE 0 END
    FROM verdict WHERE users.id = verdict.id
), pot_paid AS (
    UPDATE servers SET tokens_used_this_month = server_used, budget_reset_at = server_resets_at,
        tokens_reserved = pot_reserved + CASE WHEN admitted THEN :reserve ELSE 0 END
    FROM verdict WHERE servers.id = verdict.server_id
)"""

RELEASE = text(f"""
WITH gate AS MATERIALIZED (
    SELECT user_id, pg_advisory_xact_lock({GATE}) FROM turns WHERE id = :turn_id
), payer AS (
    SELECT users.id FROM users JOIN gate ON gate.user_id = users.id FOR NO KEY UPDATE OF users
), given_back AS (
    DELETE FROM budget_reservations USING payer WHERE budget_reservations.turn_id = :turn_id
    RETURNING budget_reservations.tokens, budget_reservations.server_id
), pot AS (
    UPDATE servers SET tokens_reserved = greatest(0, tokens_reserved - tokens)
    FROM given_back WHERE servers.id = given_back.server_id
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
    RETURNING budget_reservations.user_id, budget_reservations.tokens, budget_reservations.server_id
), pots AS (
    UPDATE servers SET tokens_reserved = greatest(0, tokens_reserved - sums.tokens)
    FROM (SELECT server_id, sum(tokens) AS tokens FROM given_back GROUP BY server_id) AS sums
    WHERE servers.id = sums.server_id
)
UPDATE users SET tokens_reserved = greatest(0, tokens_reserved - sums.tokens)
FROM (SELECT user_id, sum(tokens) AS tokens FROM given_back GROUP BY user_id) AS sums WHERE users.id = sums.user_id
""")

READ = text(f"""
SELECT {BUDGET} AS budget, tokens_reserved AS reserved, {PERIOD} FROM users WHERE id = :user_id
""")
READ_SERVER = text(f"""
SELECT token_budget_monthly AS budget, tokens_reserved AS reserved, {PERIOD} FROM servers
WHERE platform = :platform AND platform_server_id = :server AND token_budget_monthly IS NOT NULL
""")


class AdmissionStatus(Enum):
    """What the budget says to one more model call."""

    ADMITTED = auto()
    # What was held has been given back: nobody has been asked since.
    NOT_REQUESTED = auto()
    BUSY = auto()
    EXHAUSTED = auto()


@dataclass(frozen=True, slots=True)
class Admission:
    """An admission with the day on which the budget renews: the person's, or with `by_server` the server's."""

    status: AdmissionStatus
    renews_on: datetime
    by_server: bool = False

    @property
    def is_admitted(self) -> bool:
        """Return whether the call may be made."""
        return self.status is AdmissionStatus.ADMITTED

    def refusal(self) -> Refusal:
        """Return the sentence for the person."""
        if self.status is AdmissionStatus.EXHAUSTED and self.by_server:
            return ServerBudgetExhausted(renews_on=self.renews_on)
        if self.status is AdmissionStatus.EXHAUSTED:
            return BudgetExhausted(renews_on=self.renews_on)
        return BudgetBusy()


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """A budget at this moment, a user's or a server's, in tokens; `limit` None means unlimited."""

    limit: int | None
    used: int
    reserved: int
    renews_on: datetime


def to_admission(row: Any) -> Admission:
    """Return the verdict of a row; exhausted is said only when what was really used has reached the budget."""
    if row.admitted:
        return Admission(AdmissionStatus.ADMITTED, row.resets_at)
    is_exhausted = row.budget is not None and row.used >= row.budget
    return Admission(AdmissionStatus.EXHAUSTED if is_exhausted else AdmissionStatus.BUSY, row.resets_at, row.by_server)


async def reserve(session: Session, user_id: int, turn_id: int, attempt: int, tokens: int, seconds: float) -> Admission:
    """Hold `tokens` for the turn's next model call, for `seconds` at the most, if the budget admits it.

    Raises `Superseded` when another attempt runs the turn.
    """
    given = {"user_id": user_id, "turn_id": turn_id, "attempt": attempt, "tokens": tokens, "seconds": seconds}
    row = (await session.execute(RESERVE, given)).one_or_none()
    if row is None:
        raise Superseded
    return to_admission(row)


async def release(session: Session, turn_id: int) -> None:
    """Give back what the turn holds."""
    await session.execute(RELEASE, {"turn_id": turn_id})


async def release_expired(session: Session) -> None:
    """Give back what dead turns hold."""
    await session.execute(EXPIRE)


async def get_budget_status(session: Session, user_id: int) -> BudgetStatus:
    """Return how a user's budget stands."""
    return _to_budget_status((await session.execute(READ, {"user_id": user_id})).one())


async def find_server_budget_status(session: Session, place: Place) -> BudgetStatus | None:
    """Return how the budget of a place's server stands; None where all together may use what they want."""
    given = {"platform": place.platform, "server": place.server}
    row = (await session.execute(READ_SERVER, given)).one_or_none()
    return None if row is None else _to_budget_status(row)


def _to_budget_status(row: Any) -> BudgetStatus:
    return BudgetStatus(limit=row.budget, used=row.used, reserved=row.reserved, renews_on=row.resets_at)
