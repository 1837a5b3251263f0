"""How a model is asked in the course of a turn, and what its answer means: one `Mode` for each way a turn may go."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.context.builder import Context
from agent.context.messages import to_messages
from agent.journal.positions import call_seq, to_call_id
from agent.journal.steps import Step
from agent.llm.completions import Completion, ModelRequest, Stop
from agent.llm.tokens import count_tokens
from agent.policies.base import Policy
from agent.policies.surplus import MAX_CALLS
from agent.prompts import prompts
from agent.tools.arguments import read_arguments, to_shown_arguments
from agent.turn.running import RunningTurn

STEPS_LEFT_TOLD = 2


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """What a model answer comes to: the answer to the person, or what is recorded before the model is asked again.

    `text` is for people to read, whatever stood around it; `calls` may run now, and `results` is how many results there
    will be, those of calls that still wait included; `plan` is what the journal keeps of a plan.
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
    """What a streamed answer is fed to, so that nobody reads what is not for people."""

    def feed(self, piece: str) -> str:
        """Take a piece and return what may be told of it."""
        ...


class Mode(Protocol):
    """One way to ask and to understand. `prompt_tokens` is what its form adds to every prompt, at the most."""

    @property
    def prompt_tokens(self) -> int:
        """Return an upper estimate of what its form costs in a prompt."""
        ...

    def request(self, turn: RunningTurn, context: Context) -> ModelRequest:
        """Return the next question."""
        ...

    def listen(self) -> Listener | None:
        """Return what a streamed answer is fed to; None when all of it is for the person."""
        ...

    def read(self, turn: RunningTurn, completion: Completion) -> ModelTurn:
        """Return what the answer means; raises `Unavailable` when nothing can be made of it."""
        ...

    def policies(self, turn: RunningTurn) -> Sequence[Policy]:
        """Return what else stands before the calls of a turn."""
        ...

    def ready_calls(self, turn: RunningTurn, results: Sequence[Step]) -> Sequence[Step]:
        """Return the calls of the last answer that waited for these results and may run now."""
        ...

    def find_response(self, turn: RunningTurn) -> str:
        """Return what the last answer says to the person once its calls have succeeded; empty when a model is asked."""
        ...


class NativeMode:
    """Tools are offered as the provider's interface has them, or in the blocks of a text protocol."""

    prompt_tokens = 0

    def request(self, turn: RunningTurn, context: Context) -> ModelRequest:
        """Return the next question, without tools when no wave is left."""
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
        """Return nothing: the text is for the person."""
        return None

    def read(self, turn: RunningTurn, completion: Completion) -> ModelTurn:
        """Return the calls as they are, or the answer."""
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
        """Return none: no call waits for another."""
        return ()

    def ready_calls(self, turn: RunningTurn, results: Sequence[Step]) -> Sequence[Step]:
        """Return none: no call waits for another."""
        return ()

    def find_response(self, turn: RunningTurn) -> str:
        """Return nothing: the model is told the results."""
        return ""


def to_step(turn: RunningTurn, seq: int, name: str, arguments: str) -> Step:
    """Return the call that a model wrote as the journal keeps it at this position."""
    given = read_arguments(arguments)
    content = json.dumps(given, ensure_ascii=False)
    return Step(
        seq=seq,
        role="tool_call",
        content=content,
        token_count=count_tokens(to_shown_arguments(content)) + count_tokens(name),
        tool_call_id=to_call_id(turn.key.id, seq),
        tool_name=turn.offer.full_name(name),
        read=given,
    )


def waves_left(turn: RunningTurn) -> int:
    """Return how many waves of tools the turn may still have."""
    return turn.persona.max_iterations - turn.log.waves


def steps_note(turn: RunningTurn) -> str:
    """Return what the model is told near the limit; empty before."""
    left = waves_left(turn)
    return prompts().turn.steps_left.format(left=left) if left <= STEPS_LEFT_TOLD else ""
