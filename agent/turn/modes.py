"""What a mode of a turn has to offer: it builds the requests to the model and reads its answers."""

import json
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from agent.journal.steps import Step, ToolUse, to_call_id
from agent.llm.completions import Completion, ModelRequest, Stop
from agent.tools.calls import read_arguments, to_shown_arguments
from agent.tools.search import unwrap
from agent.turn.context.builder import Context
from agent.turn.policies.calls import Policy
from agent.turn.running import RunningTurn
from shared.text import count_tokens


class ModelTurn(Struct, frozen=True):
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

    def to_step(self, seq: int) -> Step:
        """Return the answer as the journal step at this position; its calls are steps of their own."""
        return Step(
            seq,
            "assistant",
            content=self.text,
            token_count=self.token_count,
            model_used=self.model,
            plan=self.plan,
        )


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


def to_step(turn: RunningTurn, seq: int, name: str, arguments: str) -> Step:
    """Convert a tool call of a model to a journal step at position `seq`; `arguments` is the text the model wrote."""
    name, tool_arguments = unwrap(turn.offer, name, turn.announcer.outflow.without_secrets(read_arguments(arguments)))
    content = json.dumps(tool_arguments, ensure_ascii=False)
    return Step(
        seq=seq,
        role="tool_call",
        content=content,
        token_count=count_tokens(to_shown_arguments(content)) + count_tokens(name),
        tool=ToolUse(to_call_id(turn.key.id, seq), turn.offer.full_name(name)),
    )
