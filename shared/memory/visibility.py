"""Which memories of a user a place may see: as an SQL condition, and by row-level security as a second safeguard."""

import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, DateTime, Float, Integer, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.elements import TextClause
from sqlalchemy.types import TypeEngine

from shared.messages import Place

# The types of the parameters of all statements on memories, by name.
TYPES: dict[str, TypeEngine[Any]] = {
    **dict.fromkeys(("user_id", "conversation_id", "memory_id"), BigInteger()),
    **dict.fromkeys(("tokens", "k", "candidates", "dimensions", "capacity", "limit", "skip"), Integer()),
    **dict.fromkeys(("cost", "saturation", "length", "speaker_boost"), Float(53)),
    **dict.fromkeys(("words_turn", "words_window", "vector_turn", "vector_window"), Float(53)),
    **dict.fromkeys(("platform", "server", "scope", "model", "vector", "content", "content_key", "source"), Text()),
    **dict.fromkeys(("words", "kinds", "vectors"), ARRAY(Text())),
    **dict.fromkeys(("counts", "lengths"), ARRAY(Integer())),
    "speaker": Text(),
    "said_at": DateTime(timezone=True),
    "ids": ARRAY(BigInteger()),
    "scores": ARRAY(Float(53)),
}
PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
AS_USER = text("SELECT set_config('parley.user_id', :user_id, true)").bindparams(bindparam("user_id", type_=Text()))


@dataclass(frozen=True, slots=True)
class Visibility:
    """The memories that a place may see: in a direct message all of the user's, elsewhere those of the server."""

    user_id: int
    platform: str
    server: str | None

    @classmethod
    def of(cls, user_id: int, place: Place) -> "Visibility":
        """Return what this place may see of a user's memories; without a server, its channel counts as one."""
        return cls(user_id, place.platform, None if place.is_direct else place.server or place.channel)

    @property
    def scope(self) -> str:
        """Return the scope of memories that are created here."""
        return "private" if self.server is None else "server"

    @property
    def condition(self) -> str:
        """Return the condition on the table `memories`, as SQL."""
        if self.server is None:
            return "user_id = :user_id"
        return "user_id = :user_id AND scope = 'server' AND platform = :platform AND platform_server_id = :server"

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the condition."""
        return {"user_id": self.user_id, "platform": self.platform, "server": self.server}


def prepare(statement: str) -> TextClause:
    """Return the statement with its parameters bound to their types."""
    names = dict.fromkeys(PARAMETER.findall(statement))
    return text(statement).bindparams(*(bindparam(name, type_=TYPES[name]) for name in names))


async def act_for(session: AsyncSession, user_id: int) -> None:
    """Restrict row-level security to this user's memories until the transaction ends."""
    await session.execute(AS_USER, {"user_id": str(user_id)})
