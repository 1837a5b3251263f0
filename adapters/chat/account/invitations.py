"""Whose invitations are accepted, on platforms where everybody can invite an account to a place of theirs."""

import re

from shared.db.database import Database
from shared.db.statements import load_statements

statements = load_statements(__file__)

KNOWN = re.compile(r"|admins|all|[@*][^\s:]*:\S+")


class Invitations:
    """Who may lead the agent to a place: by `rule`, `admins`, `all`, or accounts and `*:server`."""

    def __init__(self, database: Database, platform: str, rule: str) -> None:
        self._database, self._platform = database, platform
        self._names = _list_names(rule)

    async def is_welcome(self, account: str) -> bool:
        """Return whether this account may."""
        if not self._names.isdisjoint({"all", account, f"*:{account.partition(':')[2]}"}):
            return True
        if "admins" not in self._names:
            return False
        async with self._database.statement() as session:
            parameters = {"platform": self._platform, "account": account}
            return bool((await session.execute(statements.is_admin, parameters)).scalar_one())


def list_unknown(rule: str) -> list[str]:
    """Return the names in a rule that accept nobody, for whoever runs it: they are misspelt."""
    return sorted(name for name in _list_names(rule) if not KNOWN.fullmatch(name))


def _list_names(rule: str) -> set[str]:
    return {name.strip() for name in rule.split(",")}
