"""The commands `/more`, `/grant` and `/refuse`: requests for more than a limit allows."""

from typing import Annotated

from pydantic import Field

from agent.commands.base import Request, command
from agent.commands.grants.requests import (
    MOST_DAYS,
    approver_of,
    ask,
    decide,
    describe_request,
    list_requests,
)
from agent.commands.signature import Id
from agent.prompts import prompts
from shared.messages import Permission

MOST_AMOUNT = 10**12


Amount = Annotated[float, Field(gt=0, le=MOST_AMOUNT)]
Days = Annotated[int, Field(gt=0, le=MOST_DAYS)]


@command("more")
async def ask_for_more(request: Request, amount: Amount | None = None, *_: str) -> str:
    """Ask an admin for more when a limit refuses you."""
    async with request.app.database.transaction() as session:
        number, notices = await ask(session, request.user, request.place, amount=amount)
    texts = prompts().budgets
    return texts.asked.format(number=number, told=notices) if notices else texts.asked_nobody.format(number=number)


@command("grant", requires=Permission.ADMIN)
async def grant_more(
    request: Request, request_: Id | None = None, amount: Amount | None = None, days: Days | None = None, *_: str
) -> str:
    """List the requests for more, or grant one: what was asked, or another amount, for some days."""
    if request_ is None:
        return await _list_requests(request)
    async with request.app.database.transaction() as session:
        return await decide(session, approver_of(request), request_, amount=amount, days=days, is_granted=True)


@command("refuse", requires=Permission.ADMIN)
async def refuse_more(request: Request, request_: Id | None = None, *_: str) -> str:
    """List the requests for more, or refuse one."""
    if request_ is None:
        return await _list_requests(request)
    async with request.app.database.transaction() as session:
        return await decide(session, approver_of(request), request_, amount=None, days=None, is_granted=False)


async def _list_requests(request: Request) -> str:
    async with request.app.database.transaction() as session:
        requests = await list_requests(session, approver_of(request))
    return "\n".join(map(describe_request, requests)) or prompts().budgets.no_requests
