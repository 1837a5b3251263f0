"""Budgets: tokens are reserved before each model call, settled with its answer, and released if none is made.

The rules are database functions (`migrations/schema`): a call is admitted while `used + reserved < limit` holds for the
user, for the server and for every row of `budgets` that applies. A reservation is an upper estimate, so even with
concurrent calls no limit is exceeded by more than one call. Its id names the call on the ledger.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import Enum, auto
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import (
    BudgetBusy,
    LimitExhausted,
    PriceUnknown,
    Refusal,
    Superseded,
)
from shared.messages import COST_DIGITS, EstimatedUsage, Place, Usage
from shared.settings import Settings

statements = load_statements(__file__)

# Seconds between two requests for a busy budget; they grow, because each request takes locks.
MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 0.1, 1.0


class AdmissionStatus(Enum):
    """The result of asking the budget for one more model call."""

    ADMITTED = auto()
    # No reservation is held and none has been requested yet.
    NOT_REQUESTED = auto()
    BUSY = auto()
    EXHAUSTED = auto()
    # A limit in dollars applies, and the price of a model is unknown.
    UNPRICED = auto()


# Whose budget is used up, and when it began.
OWNERS = {
    "person": "You have",
    "own": "By the limit that you have set for yourself under About me, you have",
    "permission": "All people with your permission together have",
    "role": "All people with one of your roles together have",
    "channel": "This channel has",
    "persona": "The persona that answers here has",
    "server": "This server has",
    "installation": "All people here together have",
}
PERIODS = {"day": "today", "month": "this month", "30 days": "this month"}


class RefusingLimit(Struct, frozen=True):
    """The limit that refuses a call; `kind` as in `budgets`; `period` is "day", "month" or "30 days"."""

    kind: str
    period: str
    renews_on: datetime

    def to_refusal(self) -> Refusal:
        """Return the error that says that it is used up."""
        who, period, is_own = OWNERS[self.kind], PERIODS[self.period], self.kind == "own"
        return LimitExhausted(who=who, period=period, renews_on=self.renews_on, is_own=is_own)


class Admission(Struct, frozen=True):
    """Whether a model call is admitted, and the limit that refuses it; `reservation_id` is set while one is held."""

    status: AdmissionStatus
    limit: RefusingLimit | None = None
    reservation_id: int | None = None

    @property
    def is_admitted(self) -> bool:
        """Return whether the call is admitted."""
        return self.status is AdmissionStatus.ADMITTED

    @property
    def is_final(self) -> bool:
        """Return whether it is refused, and waiting for other calls to end would not help."""
        return self.status in (AdmissionStatus.EXHAUSTED, AdmissionStatus.UNPRICED)

    def refusal(self) -> Refusal:
        """Return the error with the text for the user."""
        if self.status is AdmissionStatus.EXHAUSTED and self.limit is not None:
            return self.limit.to_refusal()
        return PriceUnknown() if self.status is AdmissionStatus.UNPRICED else BudgetBusy()


NOT_REQUESTED = Admission(AdmissionStatus.NOT_REQUESTED)


class Reservation(Struct, frozen=True):
    """A request to reserve tokens for a turn's next model call; the reservation expires after `seconds`.

    `cost` is an upper estimate in US dollars, None when the price of a model that may be asked is unknown.
    """

    user_id: int
    turn_id: int
    attempt: int
    tokens: int
    cost: float | None
    seconds: float


class BudgetStatus(Struct, frozen=True):
    """The current budget of a user or a server, in tokens; `limit` is None if it is unlimited."""

    limit: int | None
    used: int
    reserved: int
    renews_on: datetime


def to_admission(row: Any) -> Admission:
    """Return the admission from the columns `admitted`, `refusal` and `reservation_id` of a row."""
    if row.admitted:
        return Admission(AdmissionStatus.ADMITTED, reservation_id=row.reservation_id)
    if row.refusal is None:
        return NOT_REQUESTED
    refusal = row.refusal if isinstance(row.refusal, dict) else json.loads(row.refusal)
    limit = RefusingLimit(refusal["kind"], refusal["period"], datetime.fromisoformat(refusal["resets_at"]))
    return Admission(AdmissionStatus[refusal["cause"].upper()], limit)


async def store_defaults(session: Session, settings: Settings) -> None:
    """Tell the database's functions what a guest may spend; a program does so when it starts."""
    await session.execute(statements.store_defaults, {"guest_token_budget": settings.default_guest_token_budget})


async def reserve(session: Session, reservation: Reservation) -> Admission:
    """Reserve tokens for the turn's next model call if the budgets admit it.

    Raises `Superseded` if another attempt runs the turn.
    """
    row = (await session.execute(statements.reserve, asdict(reservation))).one_or_none()
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
    released: int = (await session.execute(statements.release, {"turn_id": turn_id})).scalar_one()
    return released


async def abandon(session: Session, turn_id: int, *, model: str | None = None) -> int:
    """End the reservation of a turn whose worker died: charge its model call as an estimate if it may have been sent.

    `model` is the one that is asked first, if it is known. Returns the charged tokens.
    """
    parameters = {"turn_id": turn_id, "model": model}
    charged: int = (await session.execute(statements.abandon, parameters)).scalar_one()
    return charged


async def end_expired(session: Session) -> int:
    """End all expired reservations as `abandon` does; return their number."""
    count: int = (await session.execute(statements.expire_reservations)).scalar_one()
    return count


async def get_budget_status(session: Session, user_id: int) -> BudgetStatus:
    """Return the status of a user's budget."""
    return _to_budget_status((await session.execute(statements.get_budget_status, {"user_id": user_id})).one())


async def may_search_by_meaning(session: Session, user_id: int) -> bool:
    """Return whether an embedder may be paid for what a person searches: not if paused, or if a budget is used up."""
    return bool((await session.execute(statements.may_search_by_meaning, {"user_id": user_id})).scalar_one())


async def find_server_budget_status(session: Session, place: Place) -> BudgetStatus | None:
    """Return the status of the budget of the place's server; None if the server has no limit."""
    parameters = {"platform": place.platform, "server": place.server}
    row = (await session.execute(statements.find_server_budget_status, parameters)).one_or_none()
    return None if row is None else _to_budget_status(row)


def _to_budget_status(row: Any) -> BudgetStatus:
    return BudgetStatus(limit=row.budget, used=row.used, reserved=row.reserved, renews_on=row.resets_at)


class PaidCall(Struct, frozen=True):
    """One model call for the ledger, which has one row for each `reservation_id`, however often the call is settled."""

    model: str
    usage: Usage
    purpose: str = "answer"
    reservation_id: int | None = None


class Payment(Struct, frozen=True):
    """The calls of one model answer, including rejected attempts, and the tokens to reserve for the next call.

    `reserve` is 0 if no call follows. `cost` is an upper estimate of it in US dollars, None when a price is unknown.
    The reservation expires after `seconds`.
    """

    calls: Sequence[PaidCall]
    reserve: int = 0
    cost: float | None = None
    seconds: float = 0

    def to_parameters(self) -> dict[str, Any]:
        """Return the parameters for the database functions that settle the calls."""
        return {
            "calls": to_json(self.calls),
            "reserve": self.reserve,
            "cost": self.cost,
            "seconds": self.seconds,
        }


def to_json(calls: Sequence[PaidCall]) -> str:
    """Return the calls as the JSON that `parley_charge` expects."""
    return json.dumps(
        [
            {
                "reservation_id": call.reservation_id,
                "purpose": call.purpose,
                "model": call.model,
                "input_tokens": call.usage.input_tokens,
                "cached_tokens": call.usage.cached_tokens,
                "output_tokens": call.usage.output_tokens,
                "cost": call.usage.cost,
                "is_estimated": isinstance(call.usage, EstimatedUsage),
            }
            for call in calls
        ]
    )


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages; its cost is None if one of the costs is unknown."""
    if one == Usage():
        cost = other.cost
    else:
        cost = None if one.cost is None or other.cost is None else round(one.cost + other.cost, COST_DIGITS)
    return Usage(
        one.input_tokens + other.input_tokens,
        one.cached_tokens + other.cached_tokens,
        one.output_tokens + other.output_tokens,
        cost=cost,
    )


def to_usage(sums: list[Any]) -> Usage:
    """Return the usage from the sums of its columns: input, cached and output tokens, cost."""
    input_tokens, cached, output_tokens, cost = sums
    return Usage(input_tokens or 0, cached or 0, output_tokens or 0, cost=None if cost is None else float(cost))
