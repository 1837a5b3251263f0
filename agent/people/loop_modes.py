"""The two ways a turn goes: the model calls tools as it answers (native), or it writes plans (planner)."""

from hashlib import sha256
from typing import Literal

LoopMode = Literal["native", "planner"]


def choose_mode(chosen: LoopMode | None, conversation_id: int, planner_percent: int) -> LoopMode:
    """Return what the persona has chosen; where it has not, the same for all turns of a conversation.

    A conversation that plans at 10 percent still does so at 20.
    """
    if chosen is not None:
        return chosen
    digest = sha256(f"planner {conversation_id}".encode()).digest()
    return "planner" if int.from_bytes(digest[:8]) % 100 < planner_percent else "native"
