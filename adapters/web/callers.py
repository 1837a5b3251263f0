"""Callers who may leave before they are answered."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from adapters.web.sse import HEADERS, kept_alive
from adapters.web.uploads import discard
from agent.app import App
from agent.inbox import Accepted
from agent.leaving import leave
from shared.messages import IncomingMessage

Result = TypeVar("Result")


async def unless_left(request: Request, answer: Coroutine[Any, Any, Result]) -> Result:
    """Return the answer; raises `ClientDisconnect` when the caller closes the connection before it is there."""
    answering, leaving = asyncio.create_task(answer), asyncio.create_task(_until_left(request.receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
    finally:
        for task in (answering, leaving):
            task.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)
    raise ClientDisconnect


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def take_leave(app: App, accepted: Accepted, message: IncomingMessage) -> None:
    """End what was begun for a caller who has left; a message that is taken back takes its files along."""
    if await leave(app, accepted.inbox_id):
        await discard(app, message.attachments)


class Stream(StreamingResponse):
    """Frames as they come; `on_left` is called when the caller closes the connection before the last one is sent."""

    def __init__(self, chunks: AsyncIterator[bytes], on_left: Callable[[], Awaitable[None]]) -> None:
        super().__init__(kept_alive(chunks), media_type="text/event-stream", headers=HEADERS)
        self._on_left = on_left
        self._is_told = self._is_left = False

    async def stream_response(self, send: Send) -> None:
        """Send the frames."""
        await super().stream_response(send)
        self._is_told = True

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Return once the caller is gone."""
        await super().listen_for_disconnect(receive)
        self._is_left = not self._is_told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        await super().__call__(scope, receive, send)
        # A server that is stopped cancels its answers instead: then the turn goes on.
        if self._is_left:
            await self._on_left()
