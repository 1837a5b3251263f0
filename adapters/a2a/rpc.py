"""The calls of the protocol, in both generations: read and written by the SDK, answered by the door.

The SDK would tell a caller whatever an exception says, and log what callers send; both are put right here.
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

from adapters.a2a.door import REQUEST, Door
from adapters.web.api import sse
from adapters.web.api.faults import UNEXPECTED
from agent.app import App
from shared.log import get_logger

log = get_logger()
logging.getLogger("a2a").setLevel(logging.CRITICAL)

Id = str | int | None


def hushed(error: Exception | JSONRPCError) -> Exception | JSONRPCError:
    """Return what a caller may be told; a bug is logged under a number, and only the number goes out."""
    if isinstance(sys.exception(), ClientDisconnect):
        # Told to nobody.
        return InternalError()
    if isinstance(error, A2AError) or (isinstance(error, JSONRPCError) and not isinstance(error, InternalError)):
        return error
    number = token_hex(4)
    # Called where the bug was caught: its traceback is at hand.
    log.error("a2a_call_failed", error_id=number, exc_info=sys.exception())
    return InternalError(message=f"{UNEXPECTED} ({number})")


class _Contexts(DefaultServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[REQUEST] = request
        return context


class Dispatcher(JsonRpcDispatcher):
    """The calls of the present generation; those of the one before are handed on by their names."""

    def __init__(self, app: App) -> None:
        door, contexts = Door(app), _Contexts()
        super().__init__(door, contexts, enable_v0_3_compat=True)
        self._v03_adapter = _Before(door, contexts)

    def _generate_error_response(self, request_id: Id, error: Exception | JSONRPCError | A2AError) -> JSONResponse:
        return super()._generate_error_response(request_id, hushed(error))

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


class _Before(JSONRPC03Adapter):
    # The generation before, whose methods have names with a slash.
    def _generate_error_response(self, request_id: Id, error: Exception | JSONRPCError) -> JSONResponse:
        return super()._generate_error_response(request_id, hushed(error))

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
