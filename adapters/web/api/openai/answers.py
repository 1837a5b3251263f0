"""Answers of the OpenAI-compatible API: whole, as a stream of chunks, or as one of its errors."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Protocol

from adapters.web.api import sse
from adapters.web.api.openai.shapes import ChatChunk, ChatChunkChoice, ChatDelta, ChatUsage, FinishReason
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
from shared.messages import AgentResponse, Usage
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


class Writer(Protocol):
    """Writes a turn as the frames of one of OpenAI's streams."""

    def begin(self) -> bytes:
        """Return what comes before the first text."""
        ...

    def add(self, piece: str) -> bytes:
        """Return a piece of the text."""
        ...

    def end(self, turn_complete: Mapping[str, Any]) -> bytes:
        """Return what comes after the last text, by the event with which the turn ended."""
        ...

    def fail(self, error: Fault) -> bytes:
        """Return what ends a stream that has begun."""
        ...


class ChunkWriter:
    """Writes a turn as chunks of a completion."""

    def __init__(self, completion_id: str, created: int, *, with_usage: bool) -> None:
        self._id, self._created, self._with_usage = completion_id, created, with_usage

    def begin(self) -> bytes:
        """Return the chunk that says who speaks."""
        return self._chunk([to_choice({"role": "assistant", "content": ""})])

    def add(self, piece: str) -> bytes:
        """Return a piece of the text."""
        return self._chunk([to_choice({"content": piece})])

    def end(self, turn_complete: Mapping[str, Any]) -> bytes:
        """Return the chunk with the reason, the one with the usage if it was asked for, and the mark of the end."""
        reason = finish_reason(is_finished=turn_complete["finished"], error=turn_complete["error"])
        frames = self._chunk([to_choice({}, reason)])
        if self._with_usage:
            frames += self._chunk([], to_usage(Usage(**turn_complete["usage"])))
        return frames + b"data: [DONE]\n\n"

    def fail(self, error: Fault) -> bytes:
        """Return the error as the last frame."""
        return sse.frame(None, {"error": to_openai_error(error)})

    def _chunk(self, choices: list[ChatChunkChoice], usage: ChatUsage | None = None) -> bytes:
        chunk: ChatChunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": MODEL,
            "choices": choices,
        }
        if self._with_usage:
            chunk["usage"] = usage
        return sse.frame(None, chunk)


def to_choice(delta: ChatDelta, reason: FinishReason | None = None) -> ChatChunkChoice:
    """Return the one choice of a chunk."""
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


class TurnStream:
    """A turn as frames; text that was sent can't be withdrawn, so a reset starts a new paragraph.

    A turn that ends with an error before any text raises it as a `Fault`, or once `is_open`, when the response has
    begun, yields it as the last frame.
    """

    def __init__(self, events: AsyncIterator[Event], writer: Writer) -> None:
        self.is_open = False
        self._events, self._writer = events, writer

    async def frames(self) -> AsyncGenerator[bytes]:
        """Yield the frames."""
        transcript, last, has_begun = Shown(), "", False
        try:
            async for event in self._events:
                piece = transcript.add(event)
                if event.name == "message":
                    # Whether it is an answer or an error is in the event that follows.
                    last = piece
                elif piece:
                    begin = b"" if has_begun else self._writer.begin()
                    has_begun = True
                    yield begin + self._writer.add(piece)
                if event.name != "turn_complete":
                    continue
                end = event.payload
                fault = to_fault(end["error"], transcript.text, iterations=end["iterations"])
                if fault is not None and not has_begun:
                    raise fault
                frames = [b"" if has_begun else self._writer.begin(), self._writer.add(last) if last else b""]
                yield b"".join([*frames, self._writer.end(end)])
        except (Fault, Unavailable) as error:
            if not self.is_open:
                raise
            fault = error if isinstance(error, Fault) else Fault(503, error.code, str(error))
            yield self._writer.fail(fault)


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


def to_text(answer: AgentResponse) -> str:
    """Return the text of an answer, with links to its files."""
    return with_links(answer.content, [{"filename": file.filename, "url": file.url} for file in answer.files])


def finish_reason(*, is_finished: bool, error: str | None) -> FinishReason:
    """Return `length` if a limit ended the answer, else `stop`."""
    return "stop" if is_finished or error else "length"


def to_usage(usage: Usage) -> ChatUsage:
    """Return the token usage in OpenAI's form."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
