"""The shared usage of all users on a server, and its budget."""

from msgspec import Struct

from agent.people.billing.budget import BudgetStatus, find_server_budget_status
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.log import get_logger
from shared.messages import Place

SPENT_DAYS = 30

statements = load_statements(__file__)
log = get_logger()


class ServerSpend(Struct, frozen=True):
    """The usage of a server in the last 30 days; `budget` is None if there is no limit."""

    budget: BudgetStatus | None
    tokens: int
    cost: float
    people: int


async def get_server_spend(session: Session, place: Place) -> ServerSpend:
    """Return the usage and the budget of the place's server."""
    parameters = {"platform": place.platform, "server": place.server, "days": SPENT_DAYS}
    budget = await find_server_budget_status(session, place)
    row = (await session.execute(statements.get_server_spend, parameters)).one()
    return ServerSpend(budget, row.tokens, float(row.cost), people=row.people)


async def set_server_budget(session: Session, place: Place, budget: int | None, *, by: int) -> None:
    """Set the budget that all users of the place's server share, in tokens per period; None for unlimited.

    `by`: the user id of the admin, for the log.
    """
    await session.execute(
        statements.set_server_budget, {"platform": place.platform, "server": place.server, "budget": budget}
    )
    log.info("server_budget_set", platform=place.platform, server=place.server, budget=budget, user=by)
