"""Clients that disconnect before they are answered."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from adapters.web.api.uploads import discard
from adapters.web.auth import app_of
from agent.queue.abandonment import cancel_if_abandoned
from agent.queue.inbox import Accepted
from shared.messages import IncomingMessage

Result = TypeVar("Result")
# `true`: closing the request ends the turn although the request names its event, so that it could be asked again.
CANCEL_ON_CLOSE = "cancel-on-close"


async def unless_disconnected(request: Request, answer: Awaitable[Result]) -> Result:
    """Return the answer; raises `ClientDisconnect` if the client closes the connection before."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a request is answered in a task")
    watching = asyncio.create_task(_until_disconnected(request.receive))
    is_waiting = True

    def on_disconnected(watched: "asyncio.Task[None]") -> None:
        if is_waiting and not watched.cancelled():
            task.cancel()

    # A callback is cheaper than waiting for two tasks, and this runs for every message.
    watching.add_done_callback(on_disconnected)
    try:
        return await answer
    except asyncio.CancelledError:
        if not watching.done():
            raise
        task.uncancel()
        raise ClientDisconnect from None
    finally:
        is_waiting = False
        watching.cancel()


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def cancel_request(request: Request, accepted: Accepted, message: IncomingMessage, *, is_named: bool) -> None:
    """Cancel the message of a client that disconnected; a message that is withdrawn loses its files, too.

    A client that named the event can come back for its answer: then the turn goes on, unless the client asked for its
    end.
    """
    if is_named and request.headers.get(CANCEL_ON_CLOSE, "").lower() != "true":
        return
    app = app_of(request)
    if await cancel_if_abandoned(app.database, app.events, accepted.inbox_id):
        await discard(app, message.attachments)
