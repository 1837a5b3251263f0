"""Answers of `POST /v1/responses`: whole, or as a stream of events."""

from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec import Struct, field

from adapters.web.api import sse
from adapters.web.api.openai.answers import MODEL, to_fault, to_text
from adapters.web.api.openai.response_bodies import ResponseRequest
from adapters.web.api.openai.shapes import (
    ItemStatus,
    OutputMessage,
    OutputText,
    Response,
    ResponseError,
    ResponseEvent,
    ResponseUsage,
)
from adapters.web.faults import Fault
from shared.messages import AgentResponse, Usage

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class ResponseHead(Struct, frozen=True):
    """What a response says of itself and its request, the same from its first event to when it is read again."""

    id: str
    created_at: int
    item_id: str
    metadata: dict[str, str] = field(default_factory=dict)
    previous_id: str | None = None
    is_stored: bool = True
    options: ResponseRequest | None = None


def to_response(
    head: ResponseHead,
    status: Status,
    text: str | None = None,
    *,
    usage: Usage | None = None,
    error: ResponseError | None = None,
) -> Response:
    """Return the response with this text; None: there is no text yet, or none at all."""
    options = head.options
    item_status: ItemStatus = "completed" if status == "completed" else "incomplete"
    return {
        "id": head.id,
        "object": "response",
        "created_at": head.created_at,
        "status": status,
        "background": False,
        "error": error,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": options.instructions if options else None,
        "max_output_tokens": options.max_output_tokens if options else None,
        "metadata": head.metadata,
        "model": MODEL,
        "output": [] if text is None else [to_item(head.item_id, item_status, text)],
        "parallel_tool_calls": True,
        "previous_response_id": head.previous_id,
        "store": head.is_stored,
        "temperature": options.temperature if options else None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": options.top_p if options else None,
        "truncation": "disabled",
        "usage": None if usage is None else to_usage(usage),
    }


def of_answer(head: ResponseHead, answer: AgentResponse | None) -> Response:
    """Return the response of a turn that has ended; None: it has not."""
    if answer is None:
        return to_response(head, "in_progress")
    fault = to_fault(answer.error, answer.content, iterations=answer.iterations)
    if fault is not None:
        return to_response(head, "failed", usage=answer.usage, error=to_error(fault))
    status = find_status(is_finished=answer.finished, error=answer.error)
    return to_response(head, status, to_text(answer), usage=answer.usage)


def find_status(*, is_finished: bool, error: str | None) -> Literal["completed", "incomplete"]:
    """Return `incomplete` if a limit ended the answer; of one that says itself why it ends, `completed`."""
    return "completed" if is_finished or error else "incomplete"


def to_error(fault: Fault) -> ResponseError:
    """Return why a response failed, in one of OpenAI's words."""
    words = {400: "invalid_prompt", 429: "rate_limit_exceeded"}
    return {"code": words.get(fault.status, "server_error"), "message": fault.message}


def to_usage(usage: Usage) -> ResponseUsage:
    """Return the token usage in OpenAI's form."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total,
    }


def to_item(item_id: str, status: ItemStatus, text: str | None) -> OutputMessage:
    """Return the agent's message; without a text it has no part yet."""
    content = [] if text is None else [to_part(text)]
    return {"type": "message", "id": item_id, "role": "assistant", "status": status, "content": content}


def to_part(text: str) -> OutputText:
    """Return the part with the text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


class ResponseWriter:
    """Writes a turn as the events of a response: one message with one part, whose text grows."""

    def __init__(self, head: ResponseHead) -> None:
        self._head, self._text, self._count = head, "", 0

    def begin(self) -> bytes:
        """Return the events before the first text."""
        response = to_response(self._head, "in_progress")
        item, part = to_item(self._head.item_id, "in_progress", None), to_part("")
        return b"".join(
            [
                self._event("response.created", response=response),
                self._event("response.in_progress", response=response),
                self._event("response.output_item.added", output_index=0, item=item),
                self._of_part("response.content_part.added", part=part),
            ]
        )

    def add(self, piece: str) -> bytes:
        """Return a piece of the text."""
        self._text += piece
        return self._of_part("response.output_text.delta", delta=piece, logprobs=[])

    def end(self, turn_complete: Mapping[str, Any]) -> bytes:
        """Return the events after the last text."""
        status = find_status(is_finished=turn_complete["finished"], error=turn_complete["error"])
        response = to_response(self._head, status, self._text, usage=Usage(**turn_complete["usage"]))
        return b"".join(
            [
                self._of_part("response.output_text.done", text=self._text, logprobs=[]),
                self._of_part("response.content_part.done", part=to_part(self._text)),
                self._event("response.output_item.done", output_index=0, item=response["output"][0]),
                self._event(f"response.{status}", response=response),
            ]
        )

    def fail(self, error: Fault) -> bytes:
        """Return the events of a failure; what was said before stays said."""
        begin = b"" if self._count else self.begin()
        response = to_response(self._head, "failed", self._text or None, error=to_error(error))
        return begin + self._event("response.failed", response=response)

    def _of_part(self, name: str, **fields: Any) -> bytes:
        return self._event(name, item_id=self._head.item_id, output_index=0, content_index=0, **fields)

    def _event(self, name: str, **fields: Any) -> bytes:
        event = cast(ResponseEvent, {"type": name, "sequence_number": self._count, **fields})
        self._count += 1
        return sse.frame(name, event)
