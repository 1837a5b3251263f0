"""The two loop modes of a turn: the model calls tools in its answers (native), or it writes plans (planner)."""

from hashlib import sha256
from typing import Literal

LoopMode = Literal["native", "planner"]


def choose_mode(chosen: LoopMode | None, conversation_id: int, planner_percent: int) -> LoopMode:
    """Return the persona's choice; without one the same mode for all turns of a conversation, by percentage.

    A conversation that plans at 10 percent also plans at 20.
    """
    if chosen is not None:
        return chosen
    digest = sha256(f"planner {conversation_id}".encode()).digest()
    return "planner" if int.from_bytes(digest[:8]) % 100 < planner_percent else "native"
