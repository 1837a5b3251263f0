"""The notifications that reach other processes: their channels and their payloads."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

# `TURNS`: there is something new about a turn, or a piece of its text. `STOPS`: a turn is to stop; the payload is its
# id. `READERS`: one process asks whether anybody waits for a message, another answers.
TURNS, STOPS, READERS = "parley_turns", "parley_stops", "parley_readers"

NOTIFY = text("SELECT pg_notify(:channel, note) FROM unnest(CAST(:notes AS text[])) AS note")


def to_note(turn_id: int, inbox_ids: Sequence[int], *, is_end: bool = False) -> str:
    """Return the payload that says: there are new stored events of this turn, or its end."""
    # 500 ids fit into one notification; a turn takes at most 50 messages.
    return json.dumps({"turn": turn_id, "inbox": list(inbox_ids), "end": is_end})


def to_delta_note(turn_id: int, inbox_ids: Sequence[int], *, seq: int, delta: dict[str, Any]) -> str:
    """Return the payload with a piece of the text of a turn."""
    return json.dumps({"turn": turn_id, "inbox": list(inbox_ids), "seq": seq, "delta": delta}, ensure_ascii=False)


def to_question_note(token: str, inbox_ids: Sequence[int]) -> str:
    """Return the payload that asks the other processes whether anybody waits for these messages."""
    return json.dumps({"asked": token, "inbox": list(inbox_ids)})


def to_answer_note(token: str) -> str:
    """Return the payload that answers the question with this token: somebody waits."""
    return json.dumps({"here": token})


def read_note(payload: object) -> dict[str, Any]:
    """Return what a payload of `TURNS` or `READERS` holds."""
    note: dict[str, Any] = json.loads(str(payload))
    return note
