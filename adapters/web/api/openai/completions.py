"""`POST /v1/chat/completions` and `GET /v1/models`."""

from functools import partial

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from adapters.web.api import sse
from adapters.web.api.bodies import max_body, read_json
from adapters.web.api.messages import accept_once, answer_to, cancel_request, unless_disconnected
from adapters.web.api.openai.answers import (
    MODEL,
    ChunkWriter,
    TurnStream,
    Writer,
    finish_reason,
    to_fault,
    to_text,
    to_usage,
)
from adapters.web.api.openai.bodies import ChatRequest
from adapters.web.api.openai.headers import Stopwatch, build_headers, with_headers
from adapters.web.api.openai.incoming import ASKED_FOR_TOOLS, find_speaker, to_incoming
from adapters.web.api.openai.shapes import ChatCompletion, Model, ModelList
from adapters.web.faults import Fault
from adapters.web.guard import app_of, with_scope
from agent.queue.inbox import Accepted
from shared.messages import AgentResponse, IncomingMessage

KEY_HEADER = "idempotency-key"
NOT_PASSED_ON = ("logit_bias", "logprobs", "top_logprobs", "top_k", "min_p", "repetition_penalty", "best_of", "audio")
CANT_BE_PASSED_ON = "This agent can't pass this option on to its models. Leave the field out."


@with_scope("chat")
async def post_completion(request: Request) -> Response:
    """Answer the user's last message, in the conversation to which the request belongs."""
    app = app_of(request)
    body = await read_json(request, ChatRequest, max_body(app))
    refuse_unsupported(body)
    sender = find_speaker(request, body.user, body.safety_identifier)
    message = await to_incoming(app, body, sender, key=request.headers.get(KEY_HEADER))
    accepted = await accept_once(app, message)
    completion_id, created = f"chatcmpl-{accepted.inbox_id}", int(app.clock.now().timestamp())
    is_streamed, stream_options = body.stream, body.stream_options
    # Its files, 40 MB perhaps, are stored, and the turn may take minutes.
    del body
    if is_streamed:
        with_usage = stream_options is not None and stream_options.include_usage
        return await stream_turn(
            request, accepted, message, writer=ChunkWriter(completion_id, created, with_usage=with_usage)
        )
    answer, headers = await find_answer(request, accepted, message)
    completion: ChatCompletion = {
        "id": completion_id,
        "object": "chat.completion",
        "created": created,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": to_text(answer), "refusal": None},
                "logprobs": None,
                "finish_reason": finish_reason(is_finished=answer.finished, error=answer.error),
            }
        ],
        "usage": to_usage(answer.usage),
    }
    return JSONResponse(completion, headers=headers)


async def find_answer(
    request: Request, accepted: Accepted, message: IncomingMessage
) -> tuple[AgentResponse, dict[str, str]]:
    """Return the answer to a message, and headers; raises the `Fault` that its turn ends with before any text."""
    stopwatch = Stopwatch()
    answer = await answer_to(request, accepted, message, is_named=bool(request.headers.get(KEY_HEADER)))
    headers = await build_headers(app_of(request), accepted, message.sender, stopwatch=stopwatch)
    fault = to_fault(answer.error, answer.content, iterations=answer.iterations)
    if fault is not None:
        raise with_headers(fault, headers)
    return answer, headers


async def stream_turn(request: Request, accepted: Accepted, message: IncomingMessage, writer: Writer) -> Response:
    """Return the response that streams the answer; raises the `Fault` that the turn ends with before any text.

    The status of a response can't be changed once it has begun, so it begins with the first text; but silence no longer
    than a proxy endures.
    """
    app, stopwatch = app_of(request), Stopwatch()
    is_named = bool(request.headers.get(KEY_HEADER))
    events = app.events.follow(accepted.inbox_id)
    stream = TurnStream(events, writer)
    reading = sse.KeptAlive(stream.frames(), events)
    on_closed = partial(cancel_request, request, accepted, message, is_named=is_named)
    try:
        await unless_disconnected(request, reading.wait_for_first())
        headers = await build_headers(app, accepted, message.sender, stopwatch=stopwatch)
        stream.is_open = True
    except ClientDisconnect:
        # Whoever still reads would count as a caller that waits.
        await reading.aclose()
        await on_closed()
        raise
    except Fault as fault:
        raise with_headers(fault, await build_headers(app, accepted, message.sender, stopwatch=stopwatch)) from None
    finally:
        if not stream.is_open:
            await reading.aclose()
    response = sse.EventStream(reading, on_closed)
    response.headers.update(headers)
    return response


@with_scope("read")
async def get_models(request: Request) -> Response:
    """List the only model: the agent."""
    models: ModelList = {"object": "list", "data": [MODEL_ENTRY]}
    return JSONResponse(models)


@with_scope("read")
async def get_model(request: Request) -> Response:
    """Return a model by its name."""
    require_model(request.path_params["model"])
    return JSONResponse(MODEL_ENTRY)


MODEL_ENTRY: Model = {"id": MODEL, "object": "model", "created": 1_767_225_600, "owned_by": MODEL}


def require_model(name: str) -> None:
    """Refuse a model that `GET /v1/models` does not list."""
    if name != MODEL:
        raise Fault(404, "model_not_found", f"There is no such model here; ask for {MODEL}.", field="model")


def refuse_unsupported(body: ChatRequest) -> None:
    """Refuse unsupported options that change the meaning of the answer; other unknown options are ignored."""
    for field in ("tools", "functions", "web_search_options"):
        if getattr(body, field):
            raise Fault(400, "unsupported_parameter", ASKED_FOR_TOOLS, field=field)
    for field in NOT_PASSED_ON:
        if getattr(body, field):
            raise Fault(400, "unsupported_parameter", CANT_BE_PASSED_ON, field=field)
    require_model(body.model)
