"""The forms of `/grant` and `/refuse`: decisions on requests for more."""

from collections.abc import Mapping, Sequence

from agent.commands.base import Request
from agent.commands.forms.acts import Act
from agent.commands.forms.base import Field, Option
from agent.commands.forms.entries import Form
from agent.commands.grants.requests import MOST_DAYS, MOST_LISTED, approver_of, decide, list_requests
from agent.prompts import prompts
from shared.db.driver import Session
from shared.errors import Refusal
from shared.text import to_id

AMOUNT_MISSING = "Write an amount above 0, or none for what was asked."


async def build_refusal(session: Session, request: Request) -> Sequence[Field]:
    """Return the field with the open requests that this person may decide on."""
    requests = await list_requests(session, approver_of(request))
    if not requests:
        raise Refusal(prompts().budgets.no_requests)
    options = [
        Option(
            str(open_request.id),
            f"{open_request.id}: {open_request.amount:,g} {open_request.limit.unit} more, {open_request.limit.title}",
            detail=f"{open_request.limit.shown_use} used",
        )
        for open_request in requests
    ]
    label = "The request" if len(requests) < MOST_LISTED else f"The request (the latest {MOST_LISTED})"
    return (Field("request", label, options=options, is_required=True, value=options[0].value),)


async def build_approval(session: Session, request: Request) -> Sequence[Field]:
    """Return the fields of a grant."""
    amount = Field("amount", "How much more; empty: what was asked")
    days = Field("days", "For how many days; empty: until it renews")
    return (*await build_refusal(session, request), amount, days)


async def approve(session: Session, request: Request, form: Form) -> str:
    """Grant the request."""
    amount, days = form.amount("amount"), form.number("days")
    if amount is not None and amount <= 0:
        raise Refusal(AMOUNT_MISSING, field="amount")
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise Refusal(f"Write a number of days between 1 and {MOST_DAYS}.", field="days")
    number = to_id(form.text("request")) or 0
    own_amount = None if amount is None else float(amount)
    return await decide(session, approver_of(request), number, amount=own_amount, days=days, is_granted=True)


async def refuse(session: Session, request: Request, form: Form) -> str:
    """Refuse the request."""
    number = to_id(form.text("request")) or 0
    return await decide(session, approver_of(request), number, amount=None, days=None, is_granted=False)


DECISIONS: Mapping[str, Act] = {
    "approve": Act("Grant", "Grant a request", build_approval, do=approve),
    "refuse": Act("Refuse", "Refuse a request", build_refusal, do=refuse),
}
