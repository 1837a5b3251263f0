"""The commands `/budget` and `/me`."""

from sqlalchemy import select

from agent.billing.budget import BudgetStatus, find_server_budget_status, get_budget_status
from agent.commands.base import Request, command
from shared.models import UserPlatformLink

MOST_LINKS = 20


@command("/budget")
async def show_budget(request: Request) -> str:
    """Show what you have used, what is left and when it renews, your own and the server's."""
    async with request.app.database.transaction() as session:
        own = await get_budget_status(session, request.user.id)
        server = await find_server_budget_status(session, request.place)
    lines = [" ".join(_sentences(own))]
    return "\n".join([*lines, _of_server(server)] if server is not None else lines)


def _of_server(standing: BudgetStatus) -> str:
    limit = standing.limit or 0
    used = f"All together have used {standing.used:,} of the {limit:,} tokens of this server"
    return f"{used}; {max(0, limit - standing.used):,} are left. They renew on {standing.renews_on:%d %B %Y}."


def _sentences(standing: BudgetStatus) -> list[str]:
    held = [f"Running requests hold {standing.reserved:,} tokens."] if standing.reserved else []
    if standing.limit is None:
        return [f"Your budget is unlimited; you have used {standing.used:,} tokens in this period.", *held]
    left = max(0, standing.limit - standing.used)
    used = f"You have used {standing.used:,} of {standing.limit:,} tokens; {left:,} are left."
    return [used, *held, f"The budget renews on {standing.renews_on:%d %B %Y}."]


@command("/me")
async def show_user(request: Request) -> str:
    """Show who you are here: user, permission, linked accounts."""
    query = (
        select(UserPlatformLink.platform, UserPlatformLink.platform_user_id, UserPlatformLink.platform_username)
        .where(UserPlatformLink.user_id == request.user.id)
        .order_by(UserPlatformLink.id)
        .limit(MOST_LINKS)
    )
    async with request.app.database.transaction() as session:
        links = (await session.execute(query)).all()
    user = request.user
    accounts = (f"{each.platform} {each.platform_username or each.platform_user_id}" for each in links)
    return (
        f"You are {user.name} (user {user.id}) with the permission {user.permission.label}. "
        f"Linked accounts: {', '.join(accounts)}. Your time zone is {user.time_zone}."
    )
