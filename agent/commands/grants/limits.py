"""The limits as people read about them: which apply in a place, and how full one is."""

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import Place

statements = load_statements(__file__)

Table = Literal["users", "servers", "budgets"]


class Limit(Struct, frozen=True):
    """One limit, with what was granted on top of it in `whole`.

    `server` is the platform and id of the server that it belongs to, None for all others.
    """

    table: Table
    id: int
    kind: str
    name: str
    period: str
    unit: str
    whole: Decimal
    used: Decimal
    resets_at: datetime
    server: tuple[str, str] | None

    @property
    def title(self) -> str:
        """Return what it limits."""
        return f"{self.kind} {self.name}".strip()

    @property
    def shown_use(self) -> str:
        """Return how much of it is used."""
        if self.unit == "tokens":
            return f"{int(self.used):,} of {int(self.whole):,} tokens"
        return f"{self.used:,.2f} of {self.whole:,.2f} dollars"


async def find_limit(session: Session, table: Table, limit_id: int) -> Limit | None:
    """Return a limit, of tokens and dollars the one that is fuller; None if it does not exist any more."""
    row = (await session.execute(statements.find_limit, {"table": table, "id": limit_id})).one_or_none()
    return None if row is None else _to_limit(row)


async def find_exhausted(session: Session, user_id: int, place: Place) -> Limit | None:
    """Return the limit that refuses the person in this place; None if none is used up."""
    row = (await session.execute(statements.find_exhausted_limit, asdict(place) | {"user_id": user_id})).one_or_none()
    return None if row is None else _to_limit(row)


def _to_limit(row: Any) -> Limit:
    server = None if row.platform is None else (row.platform, row.server)
    return Limit(*(*row[:9], server))
