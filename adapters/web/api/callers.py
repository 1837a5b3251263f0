"""Callers who may leave before they are answered."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from adapters.web.api.uploads import discard
from agent.app import App
from agent.queue.abandonment import cancel_if_abandoned
from agent.queue.inbox import Accepted
from shared.messages import IncomingMessage

Result = TypeVar("Result")


async def unless_left(request: Request, answer: Awaitable[Result]) -> Result:
    """Return the answer; raises `ClientDisconnect` when the caller closes the connection before it is there."""
    asking = asyncio.current_task()
    if asking is None:
        raise RuntimeError("a request is answered in a task")
    watching = asyncio.create_task(_until_left(request.receive))
    is_waiting = True

    def hear(watched: "asyncio.Task[None]") -> None:
        if is_waiting and not watched.cancelled():
            asking.cancel()

    # Cheaper than to wait for two tasks, and this is done for every message.
    watching.add_done_callback(hear)
    try:
        return await answer
    except asyncio.CancelledError:
        if not watching.done():
            raise
        asking.uncancel()
        raise ClientDisconnect from None
    finally:
        is_waiting = False
        watching.cancel()


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def take_leave(app: App, accepted: Accepted, message: IncomingMessage) -> None:
    """End what was begun for a caller who has left; a message that is taken back takes its files along."""
    if await cancel_if_abandoned(app.database, app.events, accepted.inbox_id):
        await discard(app, message.attachments)
