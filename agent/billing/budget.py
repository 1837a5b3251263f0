"""What a user may spend: reserved before each model call, settled with its answer, released when abandoned.

The rules are functions of the database (`migrations/sql`): a call is admitted while `used + reserved < limit` holds for
the person and for the server. The reservation is an upper estimate, so the overrun is one call at most, however many
run at once. `budget_reset_at` is the END of the period.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

from sqlalchemy import text

from shared.db.driver import Session
from shared.errors import BudgetBusy, BudgetExhausted, Refusal, ServerBudgetExhausted, Superseded
from shared.messages import Place

RESERVE = text("""
SELECT * FROM parley_reserve_v1(
    p_user_id => :user_id, p_turn_id => :turn_id, p_attempt => :attempt, p_tokens => :tokens, p_seconds => :seconds
)
""")
RELEASE = text("SELECT parley_release_v1(p_turn_id => :turn_id)")
EXPIRE = text("SELECT parley_expire_reservations_v1()")
READ = text("""
SELECT standing.* FROM users CROSS JOIN LATERAL parley_budget_v1(
    token_budget_monthly, budget_from_roles, tokens_used_this_month, tokens_reserved, budget_reset_at
) AS standing
WHERE users.id = :user_id
""")
READ_SERVER = text("""
SELECT standing.* FROM servers CROSS JOIN LATERAL parley_budget_v1(
    token_budget_monthly, NULL, tokens_used_this_month, tokens_reserved, budget_reset_at
) AS standing
WHERE platform = :platform AND platform_server_id = :server AND token_budget_monthly IS NOT NULL
""")


class AdmissionStatus(Enum):
    """What the budget says to one more model call."""

    ADMITTED = auto()
    # The reservation was given back, and the budget has not been asked again.
    NOT_REQUESTED = auto()
    BUSY = auto()
    EXHAUSTED = auto()


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a model call may be made, and when the budget renews: the person's, or `by_server` the server's."""

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
class Reservation:
    """Tokens that a user's turn wants to hold for its next model call, for `seconds` at most."""

    user_id: int
    turn_id: int
    attempt: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """The budget of a user or a server at this moment, in tokens; `limit` None means unlimited."""

    limit: int | None
    used: int
    reserved: int
    renews_on: datetime


def to_admission(row: Any) -> Admission:
    """Return the admission of a row; the budget counts as exhausted only when what was really used has reached it."""
    if row.admitted:
        return Admission(AdmissionStatus.ADMITTED, row.resets_at)
    is_exhausted = row.budget is not None and row.used >= row.budget
    return Admission(AdmissionStatus.EXHAUSTED if is_exhausted else AdmissionStatus.BUSY, row.resets_at, row.by_server)


async def reserve(session: Session, reservation: Reservation) -> Admission:
    """Hold tokens for the turn's next model call, if the budgets admit it.

    Raises `Superseded` when another attempt runs the turn.
    """
    row = (await session.execute(RESERVE, asdict(reservation))).one_or_none()
    if row is None:
        raise Superseded
    return to_admission(row)


async def release(session: Session, turn_id: int) -> int:
    """Give back what the turn holds; return the tokens."""
    released: int = (await session.execute(RELEASE, {"turn_id": turn_id})).scalar_one()
    return released


async def release_expired(session: Session) -> int:
    """Give back what dead turns hold; return how many reservations that were."""
    count: int = (await session.execute(EXPIRE)).scalar_one()
    return count


async def get_budget_status(session: Session, user_id: int) -> BudgetStatus:
    """Return the state of a user's budget."""
    return _to_budget_status((await session.execute(READ, {"user_id": user_id})).one())


async def find_server_budget_status(session: Session, place: Place) -> BudgetStatus | None:
    """Return the state of the budget of a place's server, None when it has no limit."""
    given = {"platform": place.platform, "server": place.server}
    row = (await session.execute(READ_SERVER, given)).one_or_none()
    return None if row is None else _to_budget_status(row)


def _to_budget_status(row: Any) -> BudgetStatus:
    return BudgetStatus(limit=row.budget, used=row.used, reserved=row.reserved, renews_on=row.resets_at)
