"""Budgets: tokens are reserved before each model call, settled with its answer, and released if none is made.

The rules are database functions (`migrations/sql`): a call is admitted while `used + reserved < limit` holds for the
user and for the server. A reservation is an upper estimate, so even with concurrent calls the limit is exceeded by at
most one call. Its id names the call on the ledger. `budget_reset_at` is the end of the period.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

from sqlalchemy import text

from shared.db.driver import Session
from shared.errors import BudgetBusy, BudgetExhausted, Refusal, ServerBudgetExhausted, Superseded
from shared.messages import Place

# Seconds between two requests for a busy budget; they grow, because each request takes locks.
MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.1, 1.0

RESERVE = text("""
SELECT * FROM parley_reserve_v2(
    p_user_id => :user_id, p_turn_id => :turn_id, p_attempt => :attempt, p_tokens => :tokens, p_seconds => :seconds
)
""")
RELEASE = text("SELECT parley_release_v1(p_turn_id => :turn_id)")
ABANDON = text("SELECT parley_abandon_v2(p_turn_id => :turn_id, p_model => :model)")
EXPIRE = text("SELECT parley_expire_reservations_v3()")
READ = text("""
SELECT status.* FROM users CROSS JOIN LATERAL parley_budget_v1(
    token_budget_monthly, budget_from_roles, tokens_used_this_month, tokens_reserved, budget_reset_at
) AS status
WHERE users.id = :user_id
""")
READ_SERVER = text("""
SELECT status.* FROM servers CROSS JOIN LATERAL parley_budget_v1(
    token_budget_monthly, NULL, tokens_used_this_month, tokens_reserved, budget_reset_at
) AS status
WHERE platform = :platform AND platform_server_id = :server AND token_budget_monthly IS NOT NULL
""")


class AdmissionStatus(Enum):
    """The result of asking the budget for one more model call."""

    ADMITTED = auto()
    # No reservation is held and none has been requested yet.
    NOT_REQUESTED = auto()
    BUSY = auto()
    EXHAUSTED = auto()


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a model call is admitted, and when the budget renews.

    The budget is the user's, or the server's if `by_server` is set. `reservation_id` is set while one is held.
    """

    status: AdmissionStatus
    renews_on: datetime
    by_server: bool = False
    reservation_id: int | None = None

    @property
    def is_admitted(self) -> bool:
        """Return whether the call is admitted."""
        return self.status is AdmissionStatus.ADMITTED

    def refusal(self) -> Refusal:
        """Return the error with the text for the user."""
        if self.status is AdmissionStatus.EXHAUSTED and self.by_server:
            return ServerBudgetExhausted(renews_on=self.renews_on)
        if self.status is AdmissionStatus.EXHAUSTED:
            return BudgetExhausted(renews_on=self.renews_on)
        return BudgetBusy()


@dataclass(frozen=True, slots=True)
class Reservation:
    """A request to reserve tokens for a turn's next model call; the reservation expires after `seconds`."""

    user_id: int
    turn_id: int
    attempt: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BudgetStatus:
    """The current budget of a user or a server, in tokens; `limit` is None if it is unlimited."""

    limit: int | None
    used: int
    reserved: int
    renews_on: datetime


def to_admission(row: Any) -> Admission:
    """Return the admission from a row; rejected is `EXHAUSTED` if the used tokens reach the budget, else `BUSY`."""
    if row.admitted:
        return Admission(AdmissionStatus.ADMITTED, row.resets_at, reservation_id=row.reservation_id)
    is_exhausted = row.budget is not None and row.used >= row.budget
    return Admission(AdmissionStatus.EXHAUSTED if is_exhausted else AdmissionStatus.BUSY, row.resets_at, row.by_server)


async def reserve(session: Session, reservation: Reservation) -> Admission:
    """Reserve tokens for the turn's next model call if the budgets admit it.

    Raises `Superseded` if another attempt runs the turn.
    """
    row = (await session.execute(RESERVE, asdict(reservation))).one_or_none()
    if row is None:
        raise Superseded
    return to_admission(row)


async def wait_while_busy(request: Callable[[], Awaitable[Admission]], seconds_left: Callable[[], float]) -> Admission:
    """Request budget again and again while other turns hold the rest of it; return the first other admission.

    Raises `BudgetBusy` when less than a second is left.
    """
    wait = MIN_WAIT_SECONDS
    while seconds_left() >= 1:
        await asyncio.sleep(wait * random.uniform(0.5, 1.5))  # noqa: S311  # jitter, not a secret
        wait = min(wait * 1.5, MAX_WAIT_SECONDS)
        admission = await request()
        if admission.status is not AdmissionStatus.BUSY:
            return admission
    raise BudgetBusy


async def release(session: Session, turn_id: int) -> int:
    """Release the reservation of a turn; return its tokens."""
    released: int = (await session.execute(RELEASE, {"turn_id": turn_id})).scalar_one()
    return released


async def abandon(session: Session, turn_id: int, *, model: str | None = None) -> int:
    """End the reservation of a turn whose worker died: charge its model call as an estimate if it may have been sent.

    `model` is the one that is asked first, if it is known. Returns the charged tokens.
    """
    given = {"turn_id": turn_id, "model": model}
    charged: int = (await session.execute(ABANDON, given)).scalar_one()
    return charged


async def end_expired(session: Session) -> int:
    """End all expired reservations as `abandon` does; return their number."""
    count: int = (await session.execute(EXPIRE)).scalar_one()
    return count


async def get_budget_status(session: Session, user_id: int) -> BudgetStatus:
    """Return the status of a user's budget."""
    return _to_budget_status((await session.execute(READ, {"user_id": user_id})).one())


async def find_server_budget_status(session: Session, place: Place) -> BudgetStatus | None:
    """Return the status of the budget of the place's server; None if the server has no limit."""
    given = {"platform": place.platform, "server": place.server}
    row = (await session.execute(READ_SERVER, given)).one_or_none()
    return None if row is None else _to_budget_status(row)


def _to_budget_status(row: Any) -> BudgetStatus:
    return BudgetStatus(limit=row.budget, used=row.used, reserved=row.reserved, renews_on=row.resets_at)
