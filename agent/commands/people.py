"""The commands `/budget` and `/me`."""

from agent.commands.base import Request, command
from agent.people.billing.budget import find_server_budget_status, get_budget_status
from shared.db.statements import load_statements

statements = load_statements(__file__)

MOST_LINKS = 20


@command("budget")
async def show_budget(request: Request, *_: str) -> str:
    """Show what you have used, what is left and when it renews, your own and the server's."""
    async with request.app.database.transaction() as session:
        own = await get_budget_status(session, request.user.id)
        server = await find_server_budget_status(session, request.place)
    reservations = [f"Running requests hold {own.reserved:,} tokens."] if own.reserved else []
    if own.limit is None:
        used = f"Your budget is unlimited; you have used {own.used:,} tokens in this period."
        sentences = [used, *reservations]
    else:
        remainder = max(0, own.limit - own.used)
        used = f"You have used {own.used:,} of {own.limit:,} tokens; {remainder:,} are left."
        sentences = [used, *reservations, f"The budget renews on {own.renews_on:%d %B %Y}."]
    lines = [" ".join(sentences)]
    if server is not None:
        limit = server.limit or 0
        lines.append(
            f"All together have used {server.used:,} of the {limit:,} tokens of this server;"
            f" {max(0, limit - server.used):,} are left. They renew on {server.renews_on:%d %B %Y}."
        )
    return "\n".join(lines)


@command("me")
async def show_user(request: Request, *_: str) -> str:
    """Show who you are here: user, permission, linked accounts."""
    user = request.user
    async with request.app.database.statement() as session:
        links = (await session.execute(statements.list_accounts, {"user_id": user.id, "limit": MOST_LINKS})).all()
    accounts = (f"{link.platform} {link.platform_username or link.platform_user_id}" for link in links)
    return (
        f"You are {user.name} (user {user.id}) with the permission {user.permission.label}. "
        f"Linked accounts: {', '.join(accounts)}. Your time zone is {user.time_zone}."
    )
