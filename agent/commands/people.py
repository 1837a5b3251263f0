"""The commands `/budget` and `/me`."""

from sqlalchemy import select

from agent.commands.base import Request, command
from agent.people.billing.budget import BudgetStatus, find_server_budget_status, get_budget_status
from shared.models import UserPlatformLink

MOST_LINKS = 20


@command("budget")
async def show_budget(request: Request, *_: str) -> str:
    """Show what you have used, what is left and when it renews, your own and the server's."""
    async with request.app.database.transaction() as session:
        own = await get_budget_status(session, request.user.id)
        server = await find_server_budget_status(session, request.place)
    lines = [" ".join(_sentences(own))]
    return "\n".join([*lines, _of_server(server)] if server is not None else lines)


def _of_server(status: BudgetStatus) -> str:
    limit = status.limit or 0
    sentence = f"All together have used {status.used:,} of the {limit:,} tokens of this server"
    return f"{sentence}; {max(0, limit - status.used):,} are left. They renew on {status.renews_on:%d %B %Y}."


def _sentences(status: BudgetStatus) -> list[str]:
    reservations = [f"Running requests hold {status.reserved:,} tokens."] if status.reserved else []
    if status.limit is None:
        return [f"Your budget is unlimited; you have used {status.used:,} tokens in this period.", *reservations]
    remainder = max(0, status.limit - status.used)
    sentence = f"You have used {status.used:,} of {status.limit:,} tokens; {remainder:,} are left."
    return [sentence, *reservations, f"The budget renews on {status.renews_on:%d %B %Y}."]


@command("me")
async def show_user(request: Request, *_: str) -> str:
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
    accounts = (f"{link.platform} {link.platform_username or link.platform_user_id}" for link in links)
    return (
        f"You are {user.name} (user {user.id}) with the permission {user.permission.label}. "
        f"Linked accounts: {', '.join(accounts)}. Your time zone is {user.time_zone}."
    )
