"""The agent as an OpenAI-compatible API, for existing clients."""

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.web.api import sse
from adapters.web.api.bodies import max_body, read_json
from adapters.web.api.messages import accept_once, answer_to, cancel_request
from adapters.web.api.openai_bodies import ChatMessage, ChatRequest, first_of
from adapters.web.api.uploads import store_parts
from adapters.web.faults import Fault, invalid
from adapters.web.guard import app_of, with_token
from agent.app import App
from agent.journal.steps import Event
from shared.errors import Unavailable
from shared.messages import IncomingMessage, Place, Sender
from shared.text import clean, cut, to_label

PLATFORM = "openai"
MODEL = "parley"
NOBODY = "anonymous"
ASKED_FOR_TOOLS = "This agent brings its own tools; tools of the client can't be called. Leave the field out."
KEY_HEADER = "idempotency-key"


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


@with_token
async def post_completion(request: Request) -> Response:
    """Answer the user's last message, in the conversation to which the request belongs."""
    app = app_of(request)
    asked = await read_json(request, ChatRequest, max_body(app))
    refuse_unsupported(asked)
    key = request.headers.get(KEY_HEADER)
    message = await to_incoming(app, asked, key)
    accepted = await accept_once(app, message)
    head = Head(f"chatcmpl-{accepted.inbox_id}", int(app.clock.now().timestamp()))
    if asked.stream:
        with_usage = asked.stream_options is not None and asked.stream_options.include_usage
        events = app.events.follow(accepted.inbox_id)
        on_closed = partial(cancel_request, request, accepted, message, is_named=bool(key))
        stream = chunks(head, events, with_usage=with_usage)
        return sse.stream(stream, events, on_closed)
    answer = await answer_to(request, accepted, message, is_named=bool(key))
    files = [{"filename": file.filename, "url": file.url} for file in answer.files]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": with_links(answer.content, files), "refusal": None},
        "logprobs": None,
        "finish_reason": finish_reason(finished=answer.finished, error=answer.error),
    }
    usage = to_usage(answer.usage.input_tokens, answer.usage.cached_tokens, answer.usage.output_tokens)
    completion = {"id": head.id, "object": "chat.completion", "created": head.created, "model": MODEL}
    return JSONResponse({**completion, "choices": [choice], "usage": usage})


@with_token
async def get_models(request: Request) -> Response:
    """List the only model: the agent."""
    return JSONResponse({"object": "list", "data": [MODEL_ENTRY]})


@with_token
async def get_model(request: Request) -> Response:
    """Return a model by its name."""
    require_model(request.path_params["model"])
    return JSONResponse(MODEL_ENTRY)


MODEL_ENTRY = {"id": MODEL, "object": "model", "created": 1_767_225_600, "owned_by": MODEL}


def require_model(name: str) -> None:
    """Refuse a model that `GET /v1/models` does not list."""
    if name != MODEL:
        raise Fault(404, "model_not_found", f"There is no such model here; ask for {MODEL}.", field="model")


def refuse_unsupported(asked: ChatRequest) -> None:
    """Refuse unsupported options that change the meaning of the answer; other unknown options are ignored."""
    for field in ("tools", "functions"):
        if getattr(asked, field):
            raise Fault(400, "unsupported_parameter", ASKED_FOR_TOOLS, field=field)
    require_model(asked.model)


async def to_incoming(app: App, asked: ChatRequest, key: str | None) -> IncomingMessage:
    """Return the user's last message as an `IncomingMessage`, with its files stored."""
    message = last_of_user(asked.messages)
    person = asked.user or NOBODY
    # Scoped to the person, because two clients may use the same keys.
    event_id = f"{person}:{cut(clean(key), 200)}" if key else str(uuid4())
    return IncomingMessage(
        adapter="http",
        sender=Sender(PLATFORM, person),
        place=Place(PLATFORM, None, conversation_of(asked, person), is_direct=True),
        event_id=event_id,
        content=message.text,
        sent_at=None,
        attachments=await store_parts(app, message),
        wants_stream=bool(asked.stream),
    )


def last_of_user(messages: list[ChatMessage]) -> ChatMessage:
    """Return the message to answer; raises a 400 that names what is missing."""
    if messages[-1].role in ("tool", "function"):
        raise Fault(400, "unsupported_parameter", ASKED_FOR_TOOLS, field="messages")
    last = next((message for message in reversed(messages) if message.role == "user"), None)
    if last is None:
        raise invalid("messages", "there must be a message with the role user")
    if not last.text.strip() and not isinstance(last.content, list):
        raise invalid("messages", "the last message of the user is empty")
    return last


def conversation_of(asked: ChatRequest, person: str) -> str:
    """Return the channel: the named conversation, or a hash of the first messages and the person.

    Clients send the whole history each time, so its beginning identifies the conversation.
    """
    named = (asked.metadata or {}).get("conversation_id")
    if named:
        return f"{person}/{named}"
    system = first_of(asked.messages, "system") or first_of(asked.messages, "developer")
    beginning = json.dumps([person, system, first_of(asked.messages, "user")])
    return f"{person}/{hashlib.sha256(beginning.encode()).hexdigest()[:32]}"


async def chunks(head: Head, events: AsyncIterator[Event], *, with_usage: bool) -> AsyncGenerator[bytes]:
    """Yield the turn as OpenAI chunks; text that was sent can't be withdrawn, so a reset starts a new paragraph."""
    more = {"usage": None} if with_usage else {}
    yield head.chunk({"role": "assistant", "content": ""}, **more)
    shown = Shown()
    end: dict[str, Any] = {}
    try:
        async for event in events:
            if piece := shown.add(event):
                yield head.chunk({"content": piece}, **more)
            if event.name == "turn_complete":
                end = event.payload
                yield head.chunk({}, finish_reason(finished=end["finished"], error=end["error"]), **more)
        if with_usage:
            spent = end["usage"]
            counted = to_usage(spent["input_tokens"], spent["cached_tokens"], spent["output_tokens"])
            yield head.chunk(None, usage=counted)
        yield b"data: [DONE]\n\n"
    except Unavailable as error:
        yield sse.frame(None, {"error": {"code": error.code, "message": str(error), "type": "api_error"}})


class Shown:
    """The text that a client has received so far."""

    def __init__(self) -> None:
        self._step = ""
        self._has_text = False

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


def finish_reason(*, finished: bool, error: str | None) -> str:
    """Return `length` if a limit ended the answer, else `stop`."""
    return "stop" if finished or error else "length"


def to_usage(given: int, cached: int, made: int) -> dict[str, Any]:
    """Return the token usage in OpenAI's form."""
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
