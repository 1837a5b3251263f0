"""The commands `/more`, `/grant` and `/refuse`: requests for more than a limit allows."""

from agent.commands.base import Request, command
from agent.commands.grants.requests import MOST_DAYS, Approver, ask, decide, list_requests
from agent.prompts import prompts
from shared.errors import Refusal
from shared.permissions import Permission

MOST_AMOUNT = 10**12


@command("/more [AMOUNT]")
async def ask_for_more(request: Request) -> str:
    """Ask an admin for more when a limit refuses you."""
    amount = _read_number(request.words[0], MOST_AMOUNT) if request.words else None
    async with request.app.database.transaction() as session:
        number, notices = await ask(session, request.user, request.place, amount=amount)
    texts = prompts().budgets
    return texts.asked.format(number=number, told=notices) if notices else texts.asked_nobody.format(number=number)


@command("/grant [REQUEST [AMOUNT [DAYS]]]", requires=Permission.ADMIN)
async def grant_more(request: Request) -> str:
    """List the requests for more, or grant one: what was asked, or another amount, for some days."""
    if not request.words:
        return await _list(request)
    numbers = [_read_number(word, MOST_AMOUNT) for word in request.words[:3]]
    amount = numbers[1] if len(numbers) > 1 else None
    days = int(_read_number(request.words[2], MOST_DAYS)) if len(numbers) > 2 else None
    async with request.app.database.transaction() as session:
        return await decide(session, _approver(request), int(numbers[0]), amount=amount, days=days, is_granted=True)


@command("/refuse REQUEST", requires=Permission.ADMIN)
async def refuse_more(request: Request) -> str:
    """Refuse a request for more."""
    number = int(_read_number(request.words[0] if request.words else "", MOST_AMOUNT))
    async with request.app.database.transaction() as session:
        return await decide(session, _approver(request), number, amount=None, days=None, is_granted=False)


async def _list(request: Request) -> str:
    texts = prompts().budgets
    async with request.app.database.transaction() as session:
        requests = await list_requests(session, _approver(request))
    lines = [
        texts.listed.format(
            number=request.id,
            amount=f"{request.amount:,g} {request.limit.unit}",
            title=request.limit.title,
            used=request.limit.shown_use,
        )
        for request in requests
    ]
    return "\n".join(lines) or texts.no_requests


def _approver(request: Request) -> Approver:
    return Approver(request.user, request.place, f"{request.sender.platform}:{request.sender.platform_user_id}")


def _read_number(word: str, most: int) -> float:
    try:
        number = float(word)
    except ValueError:
        number = -1.0
    if not 0 < number <= most:
        raise Refusal(f"{word[:20] or 'nothing'!r} is no number between 1 and {most:,}.")
    return number
