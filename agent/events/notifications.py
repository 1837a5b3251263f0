"""NOTIFY between processes: the channels and the JSON payloads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

# `TURNS`: a turn has new events, a text delta, or has ended. `CANCELLATIONS`: a turn should stop (its id).
# `READERS`: a process asks whether any reader waits for a message, and another process answers.
TURNS, CANCELLATIONS, READERS = "parley_turns", "parley_stops", "parley_readers"

NOTIFY = text("SELECT pg_notify(:channel, note) FROM unnest(CAST(:notes AS text[])) AS note")


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of one turn: those who wait for one of the messages that it answers."""

    turn_id: int
    inbox_ids: tuple[int, ...] = ()

    def note(self, *, is_end: bool = False) -> str:
        """Return the payload that announces new stored events of the turn, or its end."""
        return to_note(self.turn_id, self.inbox_ids, is_end=is_end)

    def delta_note(self, seq: int, delta: dict[str, Any]) -> str:
        """Return the payload with a text delta of the turn."""
        return to_delta_note(self.turn_id, self.inbox_ids, seq=seq, delta=delta)


def to_note(turn_id: int, inbox_ids: Sequence[int], *, is_end: bool = False) -> str:
    """Return the payload that announces new stored events of this turn, or its end."""
    # 500 ids fit into one notification; a turn answers at most 50 messages.
    return json.dumps({"turn": turn_id, "inbox": list(inbox_ids), "end": is_end})


def to_delta_note(turn_id: int, inbox_ids: Sequence[int], *, seq: int, delta: dict[str, Any]) -> str:
    """Return the payload with a text delta of a turn."""
    return json.dumps({"turn": turn_id, "inbox": list(inbox_ids), "seq": seq, "delta": delta}, ensure_ascii=False)


def to_question_note(token: str, inbox_ids: Sequence[int]) -> str:
    """Return the payload that asks other processes whether a reader waits for one of these messages."""
    return json.dumps({"asked": token, "inbox": list(inbox_ids)})


def to_answer_note(token: str) -> str:
    """Return the payload that answers the request with this token: a reader is waiting."""
    return json.dumps({"here": token})


def read_note(payload: object) -> dict[str, Any]:
    """Parse a payload of `TURNS` or `READERS`."""
    note: dict[str, Any] = json.loads(str(payload))
    return note
