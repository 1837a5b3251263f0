"""All that a program may send to Parley, and what it may get: the table that the description of the API is made of."""

from typing import Any

from msgspec import Struct, field
from pydantic import BaseModel

from adapters.web.api.answers import EVENTS, Health, Readiness, StoredEvents
from adapters.web.api.bodies import SentMessage
from adapters.web.api.messages import MAX_PAGE
from adapters.web.api.openai.bodies import ChatRequest
from adapters.web.api.openai.response_bodies import ResponseRequest
from adapters.web.api.openai.shapes import (
    ChatChunk,
    ChatCompletion,
    DeletedResponse,
    Model,
    ModelList,
    Response,
    ResponseEvent,
)
from adapters.web.faults import OPENAI_PATHS, OpenAIProblem, Problem
from shared.messages import AgentResponse
from shared.text import MAX_ID

JSON, EVENT_STREAM, BYTES = "application/json", "text/event-stream", "application/octet-stream"
STATUSES = {
    400: "Something in the request is wrong; the error names it.",
    401: "The token is missing or wrong.",
    403: "The token may not do that.",
    404: "There is nothing with that id, or nothing that may be seen.",
    405: "The address does not take that method.",
    408: "The request did not arrive in time.",
    409: "An event with this id came before, from somebody else or from another place.",
    410: "The file is known, and its content is lost or damaged.",
    413: "The body is too large.",
    415: "The body has another content type, or is compressed.",
    429: "The budget is used up, or held by requests that are still running; or too many large ones arrive together.",
    431: "The address and the headers are too large.",
    500: "A bug; the log has its traceback under the id in the sentence.",
    503: "Something that is needed is away just now; Retry-After says when to try again.",
    504: "The turn took longer than one may.",
}
# Any request may be answered so, before anybody looks what it asks for.
ALWAYS = (400, 408, 431, 500, 503)
WITH_BODY = (413, 415)
OF_A_TURN = (409, 429, 503, 504)


class Parameter(Struct, frozen=True):
    """A value in the path, the query or the headers of a request."""

    name: str
    place: str
    meaning: str
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string", "maxLength": 200})


class Operation(Struct, frozen=True):
    """One method of one address. `answer` is the type of what it answers with; `stream` those of an event stream."""

    method: str
    path: str
    summary: str
    answer: Any
    body: type[BaseModel] | Any = None
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
    stream: dict[str, Any] = field(default_factory=dict)
    media_type: str = JSON
    is_public: bool = False

    @property
    def problem(self) -> Any:
        """Return the type of its errors."""
        return OpenAIProblem if self.path.startswith(OPENAI_PATHS) else Problem

    @property
    def statuses(self) -> list[int]:
        """Return the errors that it may be answered with."""
        with_token = () if self.is_public else (401, 403)
        return sorted({*ALWAYS, *with_token, *(WITH_BODY if self.body is not None else ()), *self.errors})


NUMBER = {"type": "integer", "minimum": 0, "maximum": MAX_ID}
KEY = Parameter("Idempotency-Key", "header", "The same key again is the same turn and its answer.")
FRONT_END = (
    Parameter("X-OpenWebUI-User-Id", "header", "Who writes, as Open WebUI names the person; wins over the body."),
    Parameter("X-LibreChat-User-Id", "header", "Who writes, as LibreChat names the person; wins over the body."),
)
CLOSE = Parameter(
    "Cancel-On-Close", "header", "With true, closing the request ends the turn.", schema={"type": "string"}
)
JSON_RPC = "A message of another agent as JSON-RPC, in version 0.3 or 1.0 of A2A; the agent card describes it."
OF_MODULES = [
    Operation(
        method,
        "/modules/{module}/{path}",
        "What a module answers at its own address, in its own way; it looks itself who asks.",
        answer=None,
        parameters=(
            Parameter("module", "path", "The module."),
            Parameter("path", "path", "Its address; it may contain slashes."),
        ),
        errors=(404, 405, 413),
        media_type="*/*",
        is_public=True,
    )
    for method in ("get", "post", "put", "delete")
]
RESPONSE = Parameter("id", "path", "The response, by the id that it came with.", schema={"type": "string"})
OWNER = Parameter("user", "query", "Whose it has to be; without it and the headers, anybody's.")
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "post",
        "/v1/messages",
        "Say something to the agent; the answer comes when the turn has ended, or as events while it runs.",
        answer=AgentResponse,
        body=SentMessage,
        parameters=(CLOSE,),
        errors=(409, 429),
        stream=EVENTS,
    ),
    Operation(
        "get",
        "/v1/conversations/{id}/events",
        "The stored events of a conversation, oldest first.",
        answer=StoredEvents,
        parameters=(
            Parameter("id", "path", "The conversation.", schema=NUMBER),
            Parameter("after", "query", "Only events with a higher id.", schema=NUMBER | {"default": 0}),
            Parameter("limit", "query", "At most so many.", schema=NUMBER | {"maximum": MAX_PAGE, "default": 500}),
        ),
        errors=(404,),
    ),
    Operation(
        "post",
        "/v1/chat/completions",
        "The agent as a model of OpenAI's API: answers the last message of the user.",
        answer=ChatCompletion,
        body=ChatRequest,
        parameters=(KEY, CLOSE, *FRONT_END),
        errors=(404, *OF_A_TURN),
        stream={"": ChatChunk},
    ),
    Operation(
        "post",
        "/v1/responses",
        "The same in the form of OpenAI's Responses API, whose answers are stored and can be gone on from.",
        answer=Response,
        body=ResponseRequest,
        parameters=(KEY, CLOSE, *FRONT_END),
        errors=(404, *OF_A_TURN),
        stream={"": ResponseEvent},
    ),
    *(
        Operation(
            method,
            "/v1/responses/{id}",
            summary,
            answer=answer,
            parameters=(RESPONSE, *FRONT_END, OWNER),
            errors=(404,),
        )
        for method, summary, answer in (
            ("get", "A stored response, also while it is being written.", Response),
            ("delete", "Delete a stored response; what is remembered of its turn stays.", DeletedResponse),
        )
    ),
    Operation("get", "/v1/models", "The models, of which there is one: the agent.", answer=ModelList),
    Operation(
        "get",
        "/v1/models/{model}",
        "One model.",
        answer=Model,
        parameters=(Parameter("model", "path", "Its name."),),
        errors=(404,),
    ),
    Operation(
        "get",
        "/files/{id}",
        "A file of a reply, by the signed link that came with it; always a download.",
        answer=None,
        parameters=(
            Parameter("id", "path", "The file."),
            Parameter("until", "query", "When the link ends."),
            Parameter("signature", "query", "What makes the link."),
        ),
        errors=(404, 410),
        media_type=BYTES,
        is_public=True,
    ),
    Operation("post", "/a2a", JSON_RPC, answer=dict[str, Any], body=dict[str, Any], stream={"": dict[str, Any]}),
    Operation("get", "/.well-known/agent-card.json", "The agent card of A2A.", answer=dict[str, Any], is_public=True),
    *OF_MODULES,
    Operation("get", "/healthz", "Whether the process runs.", answer=Health, is_public=True),
    Operation(
        "get",
        "/readyz",
        "Whether messages are accepted, and by how many workers they are answered.",
        answer=Readiness,
        parameters=(Parameter("workers", "query", "Ready only with so many; what is no number counts as 0."),),
        is_public=True,
    ),
    Operation("get", "/metrics", "Metrics in the format of Prometheus.", answer=None, media_type="text/plain"),
    Operation("get", "/openapi.json", "This description.", answer=dict[str, Any], is_public=True),
)
