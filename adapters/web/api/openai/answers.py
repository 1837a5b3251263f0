"""Answers of the OpenAI-compatible API: whole, as a stream of chunks, or as one of its errors."""

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

from adapters.web.api import sse
from adapters.web.faults import Fault, to_openai_error
from agent.journal.steps import Event
from shared.errors import (
    AnswerFiltered,
    BudgetBusy,
    LimitExhausted,
    ModelsUnavailable,
    ParleyError,
    PromptTooLong,
    TemperatureTooHigh,
    TurnTimedOut,
    Unavailable,
)
from shared.text import to_label

MODEL = "parley"
# The official clients would try again, and be refused again, until the budget renews.
NOT_AGAIN = {"x-should-retry": "false"}
SOON = {"Retry-After": "10"}
# What OpenAI calls an error that a turn ends with before the model has answered: status, code and headers.
ERRORS: dict[str, tuple[int, str, dict[str, str]]] = {
    LimitExhausted.code: (429, "insufficient_quota", NOT_AGAIN),
    BudgetBusy.code: (429, "rate_limit_exceeded", SOON),
    ModelsUnavailable.code: (503, ModelsUnavailable.code, SOON),
    AnswerFiltered.code: (400, "content_filter", NOT_AGAIN),
    TurnTimedOut.code: (504, TurnTimedOut.code, NOT_AGAIN),
    PromptTooLong.code: (400, "context_length_exceeded", {}),
    TemperatureTooHigh.code: (400, TemperatureTooHigh.code, {}),
    ParleyError.code: (500, "internal_error", NOT_AGAIN),
    "parked": (500, "internal_error", NOT_AGAIN),
}


def to_fault(error: str | None, sentence: str, *, iterations: int) -> Fault | None:
    """Return the error response for a turn that ended with this error; None if its text is an answer.

    What a model has already said or done is never thrown away: such an answer is returned, and says why it ends.
    """
    if error not in ERRORS or iterations:
        return None
    status, code, headers = ERRORS[error]
    field = "temperature" if error == TemperatureTooHigh.code else None
    return Fault(status, code, sentence, field=field, headers=headers or None)


@dataclass(frozen=True, slots=True)
class Head:
    """The fields that are the same in every chunk of an answer."""

    id: str
    created: int

    def chunk(self, delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> bytes:
        """Return one chunk as a frame; without a delta it has no choices."""
        choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        head = {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": MODEL}
        return sse.frame(None, {**head, "choices": choices, **more})


class CompletionStream:
    """A turn as OpenAI chunks; text that was sent can't be withdrawn, so a reset starts a new paragraph.

    A turn that ends with an error before any text raises it as a `Fault`, or once `is_open`, when the response has
    begun, yields it as the last frame.
    """

    def __init__(self, head: Head, events: AsyncIterator[Event], *, with_usage: bool) -> None:
        self.is_open = False
        self._head, self._events, self._with_usage = head, events, with_usage

    async def frames(self) -> AsyncGenerator[bytes]:
        """Yield the frames."""
        more = {"usage": None} if self._with_usage else {}
        begin = self._head.chunk({"role": "assistant", "content": ""}, **more)
        transcript, last = Shown(), ""
        try:
            async for event in self._events:
                piece = transcript.add(event)
                if event.name == "message":
                    # Whether it is an answer or an error is in the event that follows.
                    last = piece
                elif piece:
                    yield begin + self._head.chunk({"content": piece}, **more)
                    begin = b""
                if event.name != "turn_complete":
                    continue
                end = event.payload
                fault = to_fault(end["error"], transcript.text, iterations=end["iterations"])
                if fault is not None and begin:
                    raise fault
                frames = [begin, self._head.chunk({"content": last}, **more) if last else b""]
                reason = finish_reason(is_finished=end["finished"], error=end["error"])
                frames.append(self._head.chunk({}, reason, **more))
                if self._with_usage:
                    spent = end["usage"]
                    usage = to_usage(spent["input_tokens"], spent["cached_tokens"], spent["output_tokens"])
                    frames.append(self._head.chunk(None, usage=usage))
                yield b"".join([*frames, b"data: [DONE]\n\n"])
        except (Fault, Unavailable) as error:
            if not self.is_open:
                raise
            description = {"code": error.code, "message": str(error), "type": "api_error"}
            yield sse.frame(None, {"error": to_openai_error(error) if isinstance(error, Fault) else description})


class Shown:
    """The text that a client has received so far."""

    def __init__(self) -> None:
        self._step = ""
        self._has_text = False

    @property
    def text(self) -> str:
        """Return the text of the last step."""
        return self._step

    def add(self, event: Event) -> str:
        """Return the text that this event adds."""
        if event.name == "tool_call":
            self._step = ""
        elif event.name == "text_delta":
            if event.payload.get("reset"):
                self._step = ""
            return self._add(event.payload["text"])
        elif event.name == "message":
            final = with_links(event.payload["content"], event.payload["files"])
            if not final.startswith(self._step):
                self._step = ""
            return self._add(final[len(self._step) :])
        return ""

    def _add(self, piece: str) -> str:
        gap = "\n\n" if piece and self._has_text and not self._step else ""
        self._step += piece
        self._has_text = self._has_text or bool(piece)
        return gap + piece


def with_links(content: str, files: list[dict[str, Any]]) -> str:
    """Return the text with a link for each file of the reply: the API has no field for files."""
    return "\n\n".join([content, *(f"[{to_label(file['filename'])}]({file['url']})" for file in files)])


def finish_reason(*, is_finished: bool, error: str | None) -> str:
    """Return `length` if a limit ended the answer, else `stop`."""
    return "stop" if is_finished or error else "length"


def to_usage(prompt_tokens: int, cached: int, completion_tokens: int) -> dict[str, Any]:
    """Return the token usage in OpenAI's form."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
