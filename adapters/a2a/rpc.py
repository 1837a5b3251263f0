"""JSON-RPC for both versions of the protocol: parsed and written by the SDK, answered by `Endpoint`.

The SDK would send the text of any exception to the caller and log what callers send; both are prevented here.
"""

import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import aclosing
from secrets import token_hex
from typing import Any

import a2a.server.routes  # noqa: F401 - before the next: the SDK's two halves import each other, and only this way round
from a2a.compat.v0_3.jsonrpc_adapter import JSONRPC03Adapter
from a2a.server.context import ServerCallContext
from a2a.server.jsonrpc_models import InternalError, JSONRPCError
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.utils.constants import PROTOCOL_VERSION_0_3
from a2a.utils.errors import A2AError
from a2a.utils.version_validator import validate_version
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from adapters.a2a.endpoint import REQUEST, Endpoint
from adapters.web.api import sse
from adapters.web.faults import UNEXPECTED
from agent.app import App
from shared.log import get_logger

log = get_logger()
logging.getLogger("a2a").setLevel(logging.CRITICAL)

Id = str | int | None


def redact_error(error: Exception | JSONRPCError) -> Exception | JSONRPCError:
    """Return the error that a caller may see; a bug is logged under an id, and the caller is sent only the id."""
    if isinstance(sys.exception(), ClientDisconnect):
        # The caller has disconnected: nobody receives this.
        return InternalError()
    if isinstance(error, A2AError) or (isinstance(error, JSONRPCError) and not isinstance(error, InternalError)):
        return error
    number = token_hex(4)
    # This is called in the `except` block that caught the bug: its traceback is available.
    log.error("a2a_call_failed", error_id=number, exc_info=sys.exception())
    return InternalError(message=f"{UNEXPECTED} ({number})")


class _Contexts(DefaultServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[REQUEST] = request
        return context


class Dispatcher(JsonRpcDispatcher):
    """The methods of version 1.0; calls of version 0.3 are recognised by the method's name."""

    def __init__(self, app: App) -> None:
        endpoint, contexts = Endpoint(app), _Contexts()
        super().__init__(endpoint, contexts, enable_v0_3_compat=True)
        self._v03_adapter = _Version03Adapter(endpoint, contexts)

    def _generate_error_response(self, request_id: Id, error: Exception | JSONRPCError | A2AError) -> JSONResponse:
        return super()._generate_error_response(request_id, redact_error(error))

    def _create_response(
        self, context: ServerCallContext, handler_result: AsyncGenerator[dict[str, Any]] | dict[str, Any]
    ) -> Response:
        if isinstance(handler_result, AsyncGenerator):
            return sse.stream(_frames(handler_result))
        return super()._create_response(context, handler_result)


async def _frames(answers: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[bytes]:
    async with aclosing(answers):
        async for answer in answers:
            yield sse.frame("error" if "error" in answer else None, answer)


class _Version03Adapter(JSONRPC03Adapter):
    # Version 0.3, whose methods have names with a slash.
    def _generate_error_response(self, request_id: Id, error: Exception | JSONRPCError) -> JSONResponse:
        return super()._generate_error_response(request_id, redact_error(error))

    @validate_version(PROTOCOL_VERSION_0_3)
    async def _process_streaming_request(self, request_id: Id, request_obj: Any, context: ServerCallContext) -> Any:
        is_new = request_obj.method == "message/stream"
        follow = self.handler.on_message_send_stream if is_new else self.handler.on_subscribe_to_task
        return sse.stream(self._frames(request_id, follow(request_obj, context)))

    async def _frames(self, request_id: Id, answers: AsyncIterable[Any]) -> AsyncGenerator[bytes]:
        try:
            async for answer in answers:
                yield sse.frame(None, answer.model_dump(mode="json", by_alias=True, exclude_none=True))
        except A2AError as error:
            yield b"data: " + bytes(self._generate_error_response(request_id, error).body) + b"\n\n"
