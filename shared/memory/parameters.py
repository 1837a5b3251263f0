"""The types of the parameters of all statements on memories, by name: Postgres can't know them."""

from collections.abc import Mapping

TYPES: Mapping[str, str] = {
    **dict.fromkeys(("user_id", "conversation_id", "memory_id", "shown_from"), "bigint"),
    **dict.fromkeys(("tokens", "k", "dimensions", "capacity", "limit", "skip"), "integer"),
    **dict.fromkeys(("vector_turn", "vector_window", "bot_factor", "talk_factor"), "double precision"),
    **dict.fromkeys(("model", "vector", "platform"), "text"),
    **dict.fromkeys(("words", "kinds", "vectors", "message_ids", "names"), "text[]"),
    "counts": "integer[]",
    **dict.fromkeys(("since", "until"), "timestamptz"),
    **dict.fromkeys(("ids", "turn_ids", "user_ids", "conversation_ids"), "bigint[]"),
    **dict.fromkeys(("versions", "refused", "indexed"), "bigint[]"),
    "rows": "jsonb",
    **dict.fromkeys(("scores", "costs"), "double precision[]"),
}
