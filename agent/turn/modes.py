"""Modes of a turn: how requests to the model are built and how its answers are read; native tool calls are one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.context.builder import Context
from agent.context.messages import to_messages
from agent.journal.positions import call_seq, to_call_id
from agent.journal.steps import Step, ToolUse
from agent.llm.completions import Completion, ModelRequest, Stop
from agent.llm.tokens import count_tokens
from agent.policies.base import Policy
from agent.policies.surplus import MAX_CALLS
from agent.prompts import prompts
from agent.tools.arguments import read_arguments, to_shown_arguments
from agent.tools.search import unwrap
from agent.turn.running import RunningTurn

STEPS_LEFT_NOTED = 2


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A model answer as the mode reads it: the final answer (`is_answer`), or tool calls before the next request.

    `text` is the part for the user, without protocol syntax. `calls` may run now; `results` is the number of results
    to expect, including those of calls that still wait for others. `plan` is the plan as the journal stores it.
    """

    text: str
    thinking: str
    stop: Stop
    model: str
    is_answer: bool
    calls: Sequence[Step] = ()
    results: int = 0
    plan: dict[str, Any] | None = None
    token_count: int = 0


class Listener(Protocol):
    """Filters a streamed answer, so that users see only the text that is meant for them."""

    def feed(self, piece: str) -> str:
        """Add a piece of the stream and return the text that may be sent to the user now, possibly empty."""
        ...


class Mode(Protocol):
    """Builds requests to the model and reads its answers."""

    @property
    def prompt_tokens(self) -> int:
        """Return an upper estimate of the tokens that the mode's instructions add to every prompt."""
        ...

    def request(self, turn: RunningTurn, context: Context) -> ModelRequest:
        """Build the next request to the model."""
        ...

    def listen(self) -> Listener | None:
        """Return a new filter for a streamed answer; None when all of its text is for the user."""
        ...

    def read(self, turn: RunningTurn, completion: Completion) -> ModelTurn:
        """Read a model answer; raises `Unavailable` when it cannot be understood."""
        ...

    def policies(self, turn: RunningTurn) -> Sequence[Policy]:
        """Return the additional policies that check every call of the turn."""
        ...

    def ready_calls(self, turn: RunningTurn, results: Sequence[Step]) -> Sequence[Step]:
        """Return the calls of the last answer that depend on these results and may run now."""
        ...

    def find_response(self, turn: RunningTurn) -> str:
        """Return the response that ends the turn without another model call; empty when the model is called again."""
        ...


class NativeMode:
    """Uses the provider's native tool calls, or a text protocol for models without them."""

    prompt_tokens = 0

    def request(self, turn: RunningTurn, context: Context) -> ModelRequest:
        """Build the next request; it offers no tools when the turn has no waves left."""
        messages = [*context.messages, *to_messages(turn.log.in_order)]
        left = waves_left(turn)
        note = steps_note(turn) if left > 0 else prompts().turn.last_answer
        if note and turn.log.waves:
            messages.append({"role": "user", "content": note})
        return ModelRequest(
            messages=tuple(messages),
            tools=turn.offer.schemas if left > 0 else (),
            max_tokens=turn.persona.max_output_tokens,
            models=(turn.persona.model,) if turn.persona.model else (),
            position=turn.spend.next_number(),
            tokens=turn.spend.estimate,
            images=context.images,
        )

    def listen(self) -> Listener | None:
        """Return None: all text is for the user."""
        return None

    def read(self, turn: RunningTurn, completion: Completion) -> ModelTurn:
        """Read the tool calls of a completion, or its final answer."""
        seq = turn.log.next_seq
        calls = [
            to_step(turn, call_seq(seq, index), name=call.name, arguments=call.arguments)
            for index, call in enumerate(completion.tool_calls[: MAX_CALLS + 1])
        ]
        return ModelTurn(
            text=completion.text,
            thinking=completion.thinking,
            stop=completion.stop,
            model=completion.model,
            is_answer=waves_left(turn) <= 0 or not calls,
            calls=calls,
            results=len(calls),
            token_count=count_tokens(completion.text),
        )

    def policies(self, turn: RunningTurn) -> Sequence[Policy]:
        """Return no additional policies."""
        return ()

    def ready_calls(self, turn: RunningTurn, results: Sequence[Step]) -> Sequence[Step]:
        """Return no calls: native calls do not depend on each other."""
        return ()

    def find_response(self, turn: RunningTurn) -> str:
        """Return an empty text: the results are always sent to the model."""
        return ""


def to_step(turn: RunningTurn, seq: int, name: str, arguments: str) -> Step:
    """Convert a tool call of a model to a journal step at position `seq`; `arguments` is the text the model wrote."""
    name, given = unwrap(turn.offer, name, turn.announcer.outflow.without_secrets(read_arguments(arguments)))
    content = json.dumps(given, ensure_ascii=False)
    return Step(
        seq=seq,
        role="tool_call",
        content=content,
        token_count=count_tokens(to_shown_arguments(content)) + count_tokens(name),
        tool=ToolUse(to_call_id(turn.key.id, seq), turn.offer.full_name(name)),
        read=given,
    )


def waves_left(turn: RunningTurn) -> int:
    """Return how many waves of tool calls the turn may still run."""
    return turn.persona.max_iterations - turn.log.waves


def steps_note(turn: RunningTurn) -> str:
    """Return a note for the model that few waves are left; empty when there are more than that."""
    left = waves_left(turn)
    return prompts().turn.steps_left.format(left=left) if left <= STEPS_LEFT_NOTED else ""
