"""Requests for more than a limit allows, and the decisions on them; each is an audited row of `budget_grants`."""

from typing import Any

from msgspec import Struct

from agent.commands.base import Request
from agent.commands.grants.limits import Limit, find_exhausted, find_limit
from agent.commands.grants.people import list_approvers, to_notice
from agent.people.participants import ResolvedUser
from agent.prompts import prompts
from agent.queue.inbox import accept_within
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.messages import IncomingMessage, Permission, Place

statements = load_statements(__file__)

MOST_TOLD, MOST_LISTED = 5, 20
# What is granted when nobody names an amount: half of the limit, until it begins again.
SHARE = 2
MOST_DAYS = 366


class Approver(Struct, frozen=True):
    """Who decides, and where: a permission that roles of a server give counts for limits of that server alone."""

    user: ResolvedUser
    place: Place
    account: str


class OpenRequest(Struct, frozen=True):
    """A request that nobody has decided on; `amount` is in the limit's unit."""

    id: int
    limit: Limit
    amount: float
    asked_by: int | None


def approver_of(request: Request) -> Approver:
    """Return who decides with this command or form."""
    return Approver(request.user, request.place, f"{request.sender.platform}:{request.sender.platform_user_id}")


def describe_request(request: OpenRequest) -> str:
    """Return a line about a request: its number, what was asked, and of what limit."""
    limit = request.limit
    amount = f"{request.amount:,g} {limit.unit}"
    return prompts().budgets.listed.format(number=request.id, amount=amount, title=limit.title, used=limit.shown_use)


async def ask(session: Session, user: ResolvedUser, place: Place, *, amount: float | None) -> tuple[int, int]:
    """Ask for more of the limit that refuses the person here; return the request's number and how many were told.

    Nobody is told a second time of the same request. Raises `Refusal` when no limit is used up, or the
    same was refused within a day, and for the person's own limit, above which nobody else allows them anything.
    """
    limit = await find_exhausted(session, user.id, place)
    if limit is None:
        raise Refusal(prompts().budgets.not_needed)
    if limit.kind == "own":
        raise Refusal(prompts().budgets.set_by_yourself)
    parameters = {"user_id": user.id, "table": limit.table, "id": limit.id}
    row = (await session.execute(statements.find_open_request, parameters)).one_or_none()
    if row is not None and row.status == "refused":
        raise Refusal(prompts().budgets.refused_lately)
    if row is not None:
        return row.id, 0
    extra = amount if amount is not None else max(1.0, float(limit.whole) / SHARE)
    number = (await session.execute(statements.add_request, parameters | _amounts(limit, extra))).scalar_one()
    text_ = prompts().budgets.request.format(
        name=user.name,
        number=number,
        amount=_shown(limit, extra),
        title=limit.title,
        used=limit.shown_use,
        renews_on=limit.resets_at,
    )
    choices = (f"/grant {number}", f"/refuse {number}")
    notices: list[IncomingMessage] = []
    for approver in (approver for approver in await list_approvers(session) if approver != user.id):
        if len(notices) < MOST_TOLD:
            notice = await to_notice(session, approver, text_, event_id=f"request:{number}", choices=choices)
            notices += [notice] if notice is not None else []
    await accept_within(session, *notices)
    return number, len(notices)


async def list_requests(session: Session, approver: Approver) -> list[OpenRequest]:
    """Return the open requests that this person may decide on, the newest first."""
    numbers = (await session.execute(statements.list_requests, {"limit": MOST_LISTED})).scalars()
    requests = [await _find(session, number) for number in numbers]
    return [
        request for request in requests if request is not None and await _may_decide(session, approver, request.limit)
    ]


async def decide(
    session: Session, approver: Approver, number: int, *, amount: float | None, days: int | None, is_granted: bool
) -> str:
    """Grant or refuse a request, tell the person who asked, and return what was done.

    `amount` is in the limit's unit, None for what was asked; `days` is how long it counts, None until the limit begins
    again. Raises `Refusal`.
    """
    request = await _find(session, number)
    if request is None or not await _may_decide(session, approver, request.limit):
        raise Refusal(prompts().budgets.unknown_request.format(number=number))
    limit, extra = request.limit, request.amount if amount is None else amount
    await session.execute(statements.name_actor, {"actor": approver.account})
    parameters = {
        "id": number,
        "is_granted": is_granted,
        "resets_at": limit.resets_at,
        "days": days,
        "by": approver.user.id,
    }
    ends_at = (await session.execute(statements.decide_request, parameters | _amounts(limit, extra))).scalar_one()
    texts = prompts().budgets
    if not is_granted:
        reply = texts.refused.format(title=limit.title)
    else:
        reply = texts.granted.format(amount=_shown(limit, extra), title=limit.title, ends_at=ends_at)
    if request.asked_by is not None:
        notice = await to_notice(session, request.asked_by, reply, event_id=f"decision:{number}")
        if notice is not None:
            await accept_within(session, notice)
    return reply


async def _find(session: Session, number: int) -> OpenRequest | None:
    row = (await session.execute(statements.find_request, {"id": number})).one_or_none()
    if row is None:
        return None
    if row.limit_user_id is not None:
        limit = await find_limit(session, "users", row.limit_user_id)
    elif row.limit_server_id is not None:
        limit = await find_limit(session, "servers", row.limit_server_id)
    else:
        limit = await find_limit(session, "budgets", row.limit_budget_id)
    if limit is None:
        return None
    amount = float(row.tokens if limit.unit == "tokens" else row.cost)
    return OpenRequest(number, limit, amount, asked_by=row.asked_by_id)


async def _may_decide(session: Session, approver: Approver, limit: Limit) -> bool:
    label = (await session.execute(statements.read_permission, {"id": approver.user.id})).scalar_one()
    if Permission.from_label(label) >= Permission.ADMIN:
        return True
    here = (approver.place.platform, approver.place.server)
    return approver.user.permission >= Permission.ADMIN and limit.server == here


def _amounts(limit: Limit, amount: float) -> dict[str, Any]:
    is_tokens = limit.unit == "tokens"
    return {"tokens": int(amount) if is_tokens else 0, "cost": 0 if is_tokens else amount}


def _shown(limit: Limit, amount: float) -> str:
    return f"{int(amount):,} tokens" if limit.unit == "tokens" else f"{amount:,.2f} dollars"
