"""Which memories a turn may see: row-level security decides it, by the person and place that a transaction names."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, DateTime, Float, Integer, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import TypeEngine

from shared.db.statements import load_statements
from shared.messages import Place

statements = load_statements(__file__)

# The types of the parameters of all statements on memories, by name.
TYPES: dict[str, TypeEngine[Any]] = {
    **dict.fromkeys(("user_id", "conversation_id", "memory_id", "shown_from"), BigInteger()),
    **dict.fromkeys(("tokens", "k", "dimensions", "capacity", "limit", "skip"), Integer()),
    **dict.fromkeys(("vector_turn", "vector_window", "bot_factor", "talk_factor"), Float(53)),
    **dict.fromkeys(("model", "vector", "platform"), Text()),
    **dict.fromkeys(("words", "kinds", "vectors", "message_ids", "names"), ARRAY(Text())),
    "counts": ARRAY(Integer()),
    **dict.fromkeys(("since", "until"), DateTime(timezone=True)),
    **dict.fromkeys(("ids", "turn_ids", "user_ids", "conversation_ids"), ARRAY(BigInteger())),
    **dict.fromkeys(("versions", "refused", "indexed"), ARRAY(BigInteger())),
    "rows": JSONB(),
    **dict.fromkeys(("scores", "costs"), ARRAY(Float(53))),
}
SETTINGS = ("user_id", "platform", "server", "channel", "thread", "is_direct")


@dataclass(frozen=True, slots=True)
class Visibility:
    """A person and a place: in a direct message all that is the person's own is visible, elsewhere what belongs there.

    Without a server, a channel counts as one.
    """

    user_id: int
    place: Place

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings that row-level security compares, by name."""
        place = self.place
        return {
            "user_id": str(self.user_id),
            "platform": place.platform,
            "server": place.server or place.channel,
            "channel": place.channel,
            "thread": place.thread or "",
            "is_direct": "true" if place.is_direct else "false",
        }


async def act_in(session: AsyncSession, visibility: Visibility) -> None:
    """Restrict row-level security to what this person may see in this place, until the transaction ends."""
    await session.execute(statements.act_as, visibility.settings)


async def act_for(session: AsyncSession, user_id: int) -> None:
    """Restrict row-level security to what is this person's own, for work in the background, which has no place."""
    await session.execute(statements.act_as, dict.fromkeys(SETTINGS, "") | {"user_id": str(user_id)})
