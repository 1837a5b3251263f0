"""The owner of an installation with the embedded database: who starts it, in the terminal and on the page."""

from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert

from adapters.terminal import terminal_sender
from agent.app import App
from agent.people.users import ResolvedUser, resolve_user
from shared.models import User, UserPlatformLink
from shared.permissions import Permission

OWNER_ON_THE_WEB = "owner"


async def resolve_terminal_user(app: App) -> ResolvedUser:
    """Return the user at this terminal; with the embedded database it is the owner, here and on the page."""
    sender, budget = terminal_sender(), app.settings.default_guest_token_budget
    async with app.database.transaction() as session:
        user = await resolve_user(session, sender, budget)
        if not app.database.address.is_embedded:
            return user
        link = {"user_id": user.id, "platform": "web", "platform_user_id": OWNER_ON_THE_WEB}
        await session.execute(insert(UserPlatformLink).values(link).on_conflict_do_nothing())
        if user.permission is Permission.OWNER:
            return user
        raised = {"permission_level": Permission.OWNER.label, "token_budget_monthly": None}
        await session.execute(update(User).where(User.id == user.id).values(raised))
        return await resolve_user(session, sender, budget)


async def find_owner_on_the_web(app: App) -> str | None:
    """Return the owner's id on the platform `web`; None with an external database, where people start as guests."""
    if not app.database.address.is_embedded:
        return None
    await resolve_terminal_user(app)
    return OWNER_ON_THE_WEB
