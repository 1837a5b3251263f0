"""Whose invitations are accepted, on platforms where everybody can invite an account to a place of theirs."""

from shared.db.database import Database
from shared.db.statements import load_statements

statements = load_statements(__file__)


async def is_welcome(database: Database, rule: str, *, platform: str, account: str, server: str) -> bool:
    """Return whether this account, which is of this server, may lead the agent to a place.

    `rule`: `admins`, `all`, or accounts and `*:server`, separated by commas.
    """
    names = {name.strip() for name in rule.split(",")}
    if not names.isdisjoint({"all", account, f"*:{server}"}):
        return True
    async with database.statement() as session:
        parameters = {"platform": platform, "account": account}
        return "admins" in names and bool((await session.execute(statements.is_admin, parameters)).scalar_one())
