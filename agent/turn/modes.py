"""How a model is asked in the course of a turn, and what its answer means: one `Mode` for each way a turn may go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.context.builder import Context
from agent.context.messages import to_messages
from agent.journal.steps import Step
from agent.llm.completions import Completion, ModelRequest, Stop
from agent.llm.tokens import count_tokens
from agent.prompts import prompts
from agent.turn.log import Progress
from agent.turn.open import RunningTurn
from agent.turn.tool_batch import MAX_CALLS
from agent.turn.tool_calls import to_step

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
    """One way to ask and to understand."""

    def request(self, turn: RunningTurn, context: Context, progress: Progress) -> ModelRequest:
        """Return the next question."""
        ...

    def listen(self) -> Listener | None:
        """Return what a streamed answer is fed to; None when all of it is for the person."""
        ...

    def read(self, turn: RunningTurn, progress: Progress, completion: Completion) -> ModelTurn:
        """Return what the answer means; raises `Unavailable` when nothing can be made of it."""
        ...


class NativeMode:
    """Tools are offered as the provider's interface has them, or in the blocks of a text protocol."""

    def request(self, turn: RunningTurn, context: Context, progress: Progress) -> ModelRequest:
        """Return the next question, without tools when no wave is left."""
        messages = [*context.messages, *to_messages(progress.sorted_steps())]
        left = waves_left(turn, progress)
        note = steps_note(turn, progress) if left > 0 else prompts().turn.last_answer
        if note and progress.waves:
            messages.append({"role": "user", "content": note})
        return ModelRequest(
            messages=tuple(messages),
            tools=turn.offer.schemas if left > 0 else (),
            max_tokens=turn.persona.max_output_tokens,
            models=(turn.persona.model,) if turn.persona.model else (),
            position=progress.next_position(),
            tokens=progress.estimate,
            images=context.images,
        )

    def listen(self) -> Listener | None:
        """Return nothing: the text is for the person."""
        return None

    def read(self, turn: RunningTurn, progress: Progress, completion: Completion) -> ModelTurn:
        """Return the calls as they are, or the answer."""
        seq = progress.next_seq()
        calls = [
            to_step(turn, place, call.name, call.arguments)
            for place, call in enumerate(completion.tool_calls[: MAX_CALLS + 1], seq + 1)
        ]
        return ModelTurn(
            text=completion.text,
            thinking=completion.thinking,
            stop=completion.stop,
            model=completion.model,
            is_answer=waves_left(turn, progress) <= 0 or not calls,
            calls=calls,
            results=len(calls),
            token_count=count_tokens(completion.text),
        )


def waves_left(turn: RunningTurn, progress: Progress) -> int:
    """Return how many waves of tools the turn may still have."""
    return turn.persona.max_iterations - progress.waves


def steps_note(turn: RunningTurn, progress: Progress) -> str:
    """Return what the model is told near the limit; empty before."""
    left = waves_left(turn, progress)
    return prompts().turn.steps_left.format(left=left) if left <= STEPS_LEFT_TOLD else ""
