"""Tool calls before they run: recorded as intents, and told."""

import json
from collections.abc import Iterable

from agent.delegation.agents import tell_call
from agent.journal.steps import Event, Step
from agent.llm.tokens import count_tokens
from agent.tools.arguments import read_arguments, to_shown_arguments
from agent.turn.open import RunningTurn


def to_step(turn: RunningTurn, seq: int, name: str, arguments: str) -> Step:
    """Return the call that a model wrote as the journal keeps it at this position."""
    given = read_arguments(arguments)
    content = json.dumps(given, ensure_ascii=False)
    return Step(
        seq=seq,
        role="tool_call",
        content=content,
        token_count=count_tokens(to_shown_arguments(content)) + count_tokens(name),
        tool_call_id=to_call_id(turn, seq),
        tool_name=turn.offer.full_name(name),
        read=given,
    )


def to_call_id(turn: RunningTurn, seq: int) -> str:
    """Return the id of the call that stands at this position, the same in every attempt."""
    return f"call_{turn.key.id}_{seq}"


def tell_intents(turn: RunningTurn, calls: Iterable[Step]) -> list[Event]:
    """Return the events that announce these calls."""
    return [event for call in calls for event in tell_call(turn.announcer, call)]
