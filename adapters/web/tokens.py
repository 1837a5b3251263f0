"""Tokens of persons: a program that has one speaks for this person alone."""

import re
from hashlib import sha256

from msgspec import Struct

from adapters.web.faults import Fault
from agent.app import App
from shared.db.statements import load_statements
from shared.messages import Sender

statements = load_statements(__file__)

# Other texts are not looked up.
SHAPE = re.compile(r"parley_[0-9a-f]{64}")
# As which the person writes, by whatever address of the API.
PLATFORM = "openai"
ANOTHER = "This token speaks for one person, and the request names another."


class Person(Struct, frozen=True):
    """The person for whom a request's token speaks: the accounts, as `platform:id`, and what the token may."""

    user_id: int
    account: str
    accounts: frozenset[str]
    scopes: frozenset[str]

    @property
    def sender(self) -> Sender:
        """Return the account as which the person writes."""
        return Sender(PLATFORM, self.account)

    def require(self, sender: Sender) -> None:
        """Refuse a request that names somebody else."""
        if f"{sender.platform}:{sender.platform_user_id}" not in self.accounts:
            raise Fault(403, "other_person", ANOTHER)


async def find_person(app: App, token: str) -> Person | None:
    """Return for whom a token speaks; None for one that is unknown, revoked or over."""
    if not SHAPE.fullmatch(token):
        return None
    # The token itself would be in the log of a database that logs what statements are given.
    token_hash = sha256(token.encode()).digest()
    async with app.database.statement() as session:
        row = (await session.execute(statements.use_token, {"token_hash": token_hash})).one_or_none()
    if row is None:
        return None
    return Person(row.user_id, row.account, accounts=frozenset(row.accounts), scopes=frozenset(row.scopes))
