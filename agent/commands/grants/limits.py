"""The limits as people read about them: which apply in a place, and how full one is."""

from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.messages import Place

Table = Literal["users", "servers", "budgets"]

COLUMNS = """
limits."table", limits.id, limits.kind, limits.name, limits.period, limits.unit,
limits.allowed + limits.granted AS whole, limits.used, limits.resets_at, servers.platform, servers.platform_server_id
"""
# With the server that a limit belongs to.
SOURCE = """
admin.budgets AS limits LEFT JOIN budgets ON limits."table" = 'budgets' AND budgets.id = limits.id
LEFT JOIN servers ON (limits."table" = 'servers' AND servers.id = limits.id)
    OR (servers.platform = budgets.platform AND servers.platform_server_id = budgets.platform_server_id)
"""
GET = text(f"""
SELECT {COLUMNS} FROM {SOURCE} WHERE limits."table" = :table AND limits.id = :id
ORDER BY limits.used / nullif(limits.allowed + limits.granted, 0) DESC NULLS LAST LIMIT 1
""")
EXHAUSTED = text(f"""
SELECT {COLUMNS} FROM {SOURCE}, (
    SELECT conversations.id, conversations.persona_id FROM conversations
    WHERE platform = :platform AND platform_server_id IS NOT DISTINCT FROM :server AND platform_channel_id = :channel
      AND platform_thread_id IS NOT DISTINCT FROM :thread
) AS place
WHERE limits.used >= limits.allowed + limits.granted AND (
    (limits."table" = 'users' AND limits.id = :user_id)
    OR (limits."table" = 'servers' AND servers.platform = :platform AND servers.platform_server_id = :server)
    OR (limits."table" = 'budgets'
        AND limits.id = ANY (parley_find_budgets(:user_id, place.id, place.persona_id)))
)
ORDER BY array_position(ARRAY['users', 'servers', 'budgets'], limits."table"), limits.id LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class Limit:
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


async def find_limit(session: AsyncSession, table: Table, limit_id: int) -> Limit | None:
    """Return a limit, of tokens and dollars the one that is fuller; None if it does not exist any more."""
    row = (await session.execute(GET, {"table": table, "id": limit_id})).one_or_none()
    return None if row is None else _to_limit(row)


async def find_exhausted(session: AsyncSession, user_id: int, place: Place) -> Limit | None:
    """Return the limit that refuses the person in this place; None if none is used up."""
    row = (await session.execute(EXHAUSTED, asdict(place) | {"user_id": user_id})).one_or_none()
    return None if row is None else _to_limit(row)


def _to_limit(row: Any) -> Limit:
    server = None if row.platform is None else (row.platform, row.platform_server_id)
    return Limit(*(*row[:9], server))
