"""The owner: who starts Parley, in the terminal and on the page.

Whoever can start it can read and write its whole database; to be the owner gives them nothing that they lack.
"""

from typing import TYPE_CHECKING, Any

from adapters.terminal.person import terminal_sender
from shared.db.statements import load_statements

if TYPE_CHECKING:
    from agent.app import App
    from agent.people.participants import ResolvedUser
    from shared.db.driver import Session

statements = load_statements(__file__)

OWNER_ON_THE_WEB = "owner"


async def make_owner(session: "Session") -> Any:
    """Return name and permission of the user at this terminal, who is an owner; the first of them is that of the page.

    The page's owner is another person where two logins of one machine have started Parley.
    """
    sender = terminal_sender()
    account = {"platform": sender.platform, "account": sender.platform_user_id}
    await session.execute(statements.make_user, account)
    await session.execute(statements.make_owner, account | {"on_the_web": OWNER_ON_THE_WEB})
    return (await session.execute(statements.find_owner, account)).one()


async def find_owner_on_the_web(session: "Session") -> tuple[str, str]:
    """Return the owner's id on the platform `web`, and how the person is called whose session it opens."""
    await make_owner(session)
    row = (await session.execute(statements.find_owner, {"platform": "web", "account": OWNER_ON_THE_WEB})).one()
    return OWNER_ON_THE_WEB, f"{row.name} ({row.permission})"


async def resolve_terminal_user(app: "App") -> "ResolvedUser":
    """Return the user at this terminal, who is an owner, as turns know them."""
    # Imported here: most commands need a name at most.
    from agent.people.participants import resolve_user

    async with app.database.transaction() as session:
        await make_owner(session)
        return await resolve_user(session, terminal_sender())
