"""The types of the parameters of all statements on memories, by name: Postgres can't know them."""

from typing import Any

from sqlalchemy import BigInteger, DateTime, Float, Integer, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.types import TypeEngine

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
