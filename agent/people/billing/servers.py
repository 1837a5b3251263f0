"""The shared usage of all users on a server, and its budget."""

from dataclasses import dataclass

from sqlalchemy import text

from agent.people.billing.budget import BudgetStatus, find_server_budget_status
from shared.db.driver import Session
from shared.log import get_logger
from shared.messages import Place

SPENT_DAYS = 30

SPENT = text("""
SELECT coalesce(sum(input_tokens + output_tokens), 0) AS tokens, coalesce(sum(cost_estimate), 0) AS cost,
       count(DISTINCT token_logs.user_id) AS people
FROM token_logs JOIN conversations ON conversations.id = token_logs.conversation_id
WHERE conversations.platform = :platform AND conversations.platform_server_id = :server
  AND token_logs.created_at > now() - :days * interval '1 day'
""")
SET_BUDGET = text("SELECT admin.set_server_budget(:platform, :server, :budget)")

log = get_logger()


@dataclass(frozen=True, slots=True)
class ServerSpend:
    """The usage of a server in the last 30 days; `budget` is None if there is no limit."""

    budget: BudgetStatus | None
    tokens: int
    cost: float
    people: int


async def get_server_spend(session: Session, place: Place) -> ServerSpend:
    """Return the usage and the budget of the place's server."""
    parameters = {"platform": place.platform, "server": place.server, "days": SPENT_DAYS}
    budget = await find_server_budget_status(session, place)
    row = (await session.execute(SPENT, parameters)).one()
    return ServerSpend(budget, row.tokens, float(row.cost), people=row.people)


async def set_server_budget(session: Session, place: Place, budget: int | None, *, by: int) -> None:
    """Set the budget that all users of the place's server share, in tokens per period; None for unlimited.

    `by`: the user id of the admin, for the log.
    """
    await session.execute(SET_BUDGET, {"platform": place.platform, "server": place.server, "budget": budget})
    log.info("server_budget_set", platform=place.platform, server=place.server, budget=budget, user=by)
