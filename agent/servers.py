"""What all people together use on a server, and what they may."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from agent.budget import PERIOD
from shared.driver import Session
from shared.log import get_logger

SPENT_DAYS = 30

STANDING = text(f"""
SELECT token_budget_monthly AS budget, tokens_reserved AS reserved, {PERIOD} FROM servers
WHERE platform = :platform AND platform_server_id = :server
""")
SPENT = text("""
SELECT coalesce(sum(input_tokens + output_tokens), 0) AS tokens, coalesce(sum(cost_estimate), 0) AS cost,
       count(DISTINCT token_logs.user_id) AS people
FROM token_logs JOIN conversations ON conversations.id = token_logs.conversation_id
WHERE conversations.platform = :platform AND conversations.platform_server_id = :server
  AND token_logs.created_at > now() - :days * interval '1 day'
""")
SET_BUDGET = text("""
INSERT INTO servers (platform, platform_server_id, token_budget_monthly) VALUES (:platform, :server, :budget)
ON CONFLICT (platform, platform_server_id) DO UPDATE SET token_budget_monthly = excluded.token_budget_monthly
""")

log = get_logger()


@dataclass(frozen=True, slots=True)
class ServerStanding:
    """A server's budget, in tokens, and what the ledger says of the last 30 days; `limit` None means unlimited.

    `used` and `renews_on` are those of the budget's own period; None where nobody has ever set one.
    """

    limit: int | None
    used: int | None
    renews_on: datetime | None
    spent: int
    cost: float
    people: int


async def get_server_standing(session: Session, platform: str, server: str) -> ServerStanding:
    """Return how a server stands."""
    given = {"platform": platform, "server": server}
    row = (await session.execute(STANDING, given)).one_or_none()
    spent = (await session.execute(SPENT, given | {"days": SPENT_DAYS})).one()
    told = (spent.tokens, float(spent.cost), spent.people)
    return (
        ServerStanding(None, None, None, *told)
        if row is None
        else ServerStanding(row.budget, row.used, row.resets_at, *told)
    )


async def set_server_budget(session: Session, platform: str, server: str, budget: int | None, *, by: int) -> None:
    """Set what all people together may use in 30 days, None for unlimited; `by` is the user who does."""
    await session.execute(SET_BUDGET, {"platform": platform, "server": server, "budget": budget})
    log.info("server_budget_set", platform=platform, server=server, budget=budget, user=by)
