"""Error responses: a status, a stable code and one sentence, as JSON, or as a page to a browser that opens one."""

from secrets import token_hex
from typing import NotRequired

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from typing_extensions import TypedDict

from adapters.web.notes import NO_STORE, note
from adapters.web.texts import say
from shared.errors import EventIdInUse, NotFound, ParleyError, Refusal, ToolError, Unavailable
from shared.log import get_logger
from shared.text import clean, cut

log = get_logger()

OPENAI_PATHS = ("/v1/chat/", "/v1/models", "/v1/responses")
UNEXPECTED = say("fault.unexpected")
HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}
HTTP_SENTENCES = {404: say("fault.not_found"), 405: say("fault.method")}


class Cause(TypedDict):
    """A stable code, one sentence, and the wrong field if there is one."""

    code: str
    message: str
    field: NotRequired[str]


class Problem(TypedDict):
    """What a refused request is answered with."""

    error: Cause


class OpenAICause(TypedDict):
    """A stable code, one sentence, OpenAI's word for the kind of error, and the wrong field if there is one."""

    code: str
    message: str
    type: str
    param: str | None


class OpenAIProblem(TypedDict):
    """What a refused request is answered with on the addresses that are OpenAI's."""

    error: OpenAICause


class Fault(Exception):
    """A request that is answered with a 4xx or 503; `field` names the wrong field if there is one."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.headers = headers
        super().__init__(code)


def invalid(field: str, reason: str) -> Fault:
    """Return the fault for a wrong value in a field."""
    return Fault(400, "invalid_request", f"{field}: {reason}", field=field)


def from_validation(error: ValidationError) -> Fault:
    """Return the fault for the first wrong field and the reason."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return Fault(400, "invalid_json", say("fault.not_json", reason=first["msg"].removeprefix("Invalid JSON: ")))
    # The path may contain keys that the client chose.
    field = cut(clean(".".join(str(part) for part in first["loc"])), 200)
    if first["type"] == "extra_forbidden":
        return invalid(field, say("fault.no_field"))
    reason = first["msg"].removeprefix("Value error, ")
    return invalid(field, reason[:1].lower() + reason[1:]) if field else Fault(400, "invalid_request", reason)


def to_openai_error(fault: Fault) -> OpenAICause:
    """Return the fault as an error object of OpenAI's API."""
    kinds = {401: "authentication_error", 404: "not_found_error", 429: fault.code}
    kind = kinds.get(fault.status, "invalid_request_error" if fault.status < 500 else "api_error")
    return {"code": fault.code, "message": fault.message, "type": kind, "param": fault.field}


def answer(request: Request, fault: Fault) -> Response:
    """Return the fault as JSON, in OpenAI's form on OpenAI-compatible paths; to a browser that opens a page, as one."""
    if "text/html" in request.headers.get("accept", ""):
        return note(say("fault.title"), fault.message, fault.status, headers=NO_STORE | (fault.headers or {}))
    problem: Problem | OpenAIProblem
    if request.url.path.startswith(OPENAI_PATHS):
        problem = {"error": to_openai_error(fault)}
    else:
        problem = {"error": {"code": fault.code, "message": fault.message}}
        if fault.field is not None:
            problem["error"]["field"] = fault.field
    return JSONResponse(problem, fault.status, fault.headers)


async def on_fault(request: Request, error: Exception) -> Response:
    """Answer a `Fault`."""
    assert isinstance(error, Fault)  # noqa: S101 - the handler is registered for this class alone
    return answer(request, error)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Answer the router's errors: an unknown path, a wrong method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - as above
    code = HTTP_CODES.get(error.status_code, "http_error")
    message = HTTP_SENTENCES.get(error.status_code, error.detail)
    headers = dict(error.headers) if error.headers else None
    return answer(request, Fault(error.status_code, code, message, headers=headers))


async def on_our_error(request: Request, error: Exception) -> Response:
    """Answer one of our own errors, whose text is written for people."""
    assert isinstance(error, ParleyError)  # noqa: S101 - as above
    if isinstance(error, Unavailable):
        wait = {"Retry-After": str(max(1, round(error.retry_after or 1)))}
        return answer(request, Fault(503, error.code, str(error), headers=wait))
    if isinstance(error, (Refusal, ToolError)):
        status = 404 if isinstance(error, NotFound) else 409 if isinstance(error, EventIdInUse) else 400
        return answer(request, Fault(status, error.code, str(error)))
    raise error


async def on_disconnect(_request: Request, _error: Exception) -> Response:
    """Send nothing: the client disconnected while sending."""
    return Response(status_code=499)


async def on_bug(request: Request, error: Exception) -> Response:
    """Answer any other error with a fixed sentence and an id; the log has the traceback under this id."""
    number = token_hex(4)
    error.add_note(f"error_id={number}")
    log.error("request_failed", error_id=number, path=request.url.path, error=type(error).__name__)
    return answer(request, Fault(500, "internal_error", f"{UNEXPECTED} ({number})"))


HANDLERS = {
    Fault: on_fault,
    HTTPException: on_http_exception,
    ParleyError: on_our_error,
    ClientDisconnect: on_disconnect,
    Exception: on_bug,
}
