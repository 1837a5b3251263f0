"""`POST /v1/chat/completions` and `GET /v1/models`."""

from functools import partial

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from adapters.web.api import sse
from adapters.web.api.bodies import max_body, read_json
from adapters.web.api.messages import accept_once, answer_to, cancel_request, unless_disconnected
from adapters.web.api.openai.answers import (
    MODEL,
    CompletionStream,
    Head,
    finish_reason,
    to_fault,
    to_usage,
    with_links,
)
from adapters.web.api.openai.bodies import ChatRequest
from adapters.web.api.openai.incoming import ASKED_FOR_TOOLS, to_incoming
from adapters.web.faults import Fault
from adapters.web.guard import app_of, with_token
from agent.queue.inbox import Accepted
from shared.messages import IncomingMessage

KEY_HEADER = "idempotency-key"
NOT_PASSED_ON = ("logit_bias", "logprobs", "top_logprobs", "top_k", "min_p", "repetition_penalty", "best_of")
CANT_BE_PASSED_ON = "This agent can't pass this option on to its models. Leave the field out."


@with_token
async def post_completion(request: Request) -> Response:
    """Answer the user's last message, in the conversation to which the request belongs."""
    app = app_of(request)
    body = await read_json(request, ChatRequest, max_body(app))
    refuse_unsupported(body)
    key = request.headers.get(KEY_HEADER)
    message = await to_incoming(app, body, request.headers, key=key)
    accepted = await accept_once(app, message)
    head = Head(f"chatcmpl-{accepted.inbox_id}", int(app.clock.now().timestamp()))
    if body.stream:
        with_usage = body.stream_options is not None and body.stream_options.include_usage
        return await stream_completion(request, accepted, message, head=head, with_usage=with_usage)
    answer = await answer_to(request, accepted, message, is_named=bool(key))
    fault = to_fault(answer.error, answer.content, iterations=answer.iterations)
    if fault is not None:
        raise fault
    files = [{"filename": file.filename, "url": file.url} for file in answer.files]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": with_links(answer.content, files), "refusal": None},
        "logprobs": None,
        "finish_reason": finish_reason(is_finished=answer.finished, error=answer.error),
    }
    usage = to_usage(answer.usage.input_tokens, answer.usage.cached_tokens, answer.usage.output_tokens)
    completion = {"id": head.id, "object": "chat.completion", "created": head.created, "model": MODEL}
    return JSONResponse({**completion, "choices": [choice], "usage": usage})


async def stream_completion(
    request: Request, accepted: Accepted, message: IncomingMessage, *, head: Head, with_usage: bool
) -> Response:
    """Return the response that streams the answer; raises the `Fault` that the turn ends with before any text.

    The status of a response can't be changed once it has begun, so it begins with the first text; but silence no longer
    than a proxy endures.
    """
    is_named = bool(request.headers.get(KEY_HEADER))
    events = app_of(request).events.follow(accepted.inbox_id)
    stream = CompletionStream(head, events, with_usage=with_usage)
    reading = sse.KeptAlive(stream.frames(), events)
    on_closed = partial(cancel_request, request, accepted, message, is_named=is_named)
    try:
        await unless_disconnected(request, reading.wait_for_first())
        stream.is_open = True
    except ClientDisconnect:
        # Whoever still reads would count as a caller that waits.
        await reading.aclose()
        await on_closed()
        raise
    finally:
        if not stream.is_open:
            await reading.aclose()
    return sse.EventStream(reading, on_closed)


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


def refuse_unsupported(body: ChatRequest) -> None:
    """Refuse unsupported options that change the meaning of the answer; other unknown options are ignored."""
    for field in ("tools", "functions"):
        if getattr(body, field):
            raise Fault(400, "unsupported_parameter", ASKED_FOR_TOOLS, field=field)
    for field in NOT_PASSED_ON:
        if getattr(body, field):
            raise Fault(400, "unsupported_parameter", CANT_BE_PASSED_ON, field=field)
    require_model(body.model)
