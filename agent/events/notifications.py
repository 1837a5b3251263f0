"""The notifications that tell other processes of a turn: their channels and their payloads."""

import json
from collections.abc import Sequence


def to_note(turn_id: int, inbox_ids: Sequence[int], *, is_end: bool = False) -> str:
    """Return the notification that says: there is something new to read about this turn."""
    # 500 ids fit into one notification; a turn takes at most 50 messages.
    return json.dumps({"turn": turn_id, "inbox": list(inbox_ids), "end": is_end})


TURNS, STOPS, READERS = "parley_turns", "parley_stops", "parley_readers"
