"""The owner: who starts Parley, in the terminal and on the page.

Whoever can start it can read and write its whole database; to be the owner gives them nothing that they lack.
"""

from sqlalchemy import func, select

from adapters.terminal import terminal_sender
from agent.app import App
from agent.people.participants import ResolvedUser, resolve_user
from shared.db.statements import load_statements
from shared.messages import Permission

statements = load_statements(__file__)

OWNER_ON_THE_WEB = "owner"


async def resolve_terminal_user(app: App) -> ResolvedUser:
    """Return the user at this terminal, who is an owner; the first of them is the owner on the page, too."""
    sender = terminal_sender()
    async with app.database.transaction() as session:
        user = await resolve_user(session, sender)
        await session.execute(select(func.parley_link_account(user.id, "web", OWNER_ON_THE_WEB)))
        if user.permission is Permission.OWNER:
            return user
        await session.execute(select(func.parley_set_permission(user.id, Permission.OWNER.label)))
        return await resolve_user(session, sender)


async def find_owner_on_the_web(app: App) -> tuple[str, str]:
    """Return the owner's id on the platform `web`, and how the person is called whose session it opens."""
    await resolve_terminal_user(app)
    async with app.database.transaction() as session:
        row = (await session.execute(statements.find_owner, {"account": OWNER_ON_THE_WEB})).one()
    return OWNER_ON_THE_WEB, f"{row.name} ({row.permission})"
