"""Socket Mode: the library holds the socket; errors that it does not recover from end the connection."""

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from pydantic import SecretStr
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler

from adapters.slack.transport.api import APP_TOKEN_METHOD, MethodLimits, TokenRefused, Web
from adapters.slack.transport.clients import Clients, quiet
from adapters.slack.transport.token import Token
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from slack_bolt.request.async_request import AsyncBoltRequest
    from slack_bolt.response import BoltResponse

    from adapters.base import Running
    from shared.clock import Clock

CONNECT_SECONDS, PING_SECONDS = 20.0, 5.0
CLOSE_SECONDS = 5.0

log = get_logger()


class AppTokenRefused(Undeliverable):
    """Slack refuses the app-level token; make one with the scope connections:write and set SLACK_APP_TOKEN."""


class Dispatcher(Protocol):
    """What the library's socket calls of the library's app."""

    async def async_dispatch(self, request: "AsyncBoltRequest") -> "BoltResponse":
        """Handle a request."""
        ...


@asynccontextmanager
async def open_socket(
    dispatcher: Dispatcher, clients: Clients, secret: SecretStr, clock: "Clock", running: "Running"
) -> "AsyncIterator[AsyncSocketModeHandler]":
    """Connect; at the end of the block, events being stored are finished before the connection is closed."""
    web_client = clients.library_client()
    try:
        response = await Web(web_client, Token(secret, "", ""), MethodLimits(clock)).call(
            APP_TOKEN_METHOD, app_token=secret.get_secret_value()
        )
    except TokenRefused as error:
        raise AppTokenRefused from error
    socket = AsyncSocketModeHandler(
        dispatcher,  # type: ignore[arg-type]  # it calls nothing else of an app
        secret.get_secret_value(),
        logger=quiet,
        web_client=web_client,
        ping_interval=PING_SECONDS,
    )
    socket.client.wss_uri = str(response.get("url", ""))
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            # The library would retry with the same ticket, which Slack accepts once.
            await socket.connect_async()  # type: ignore[no-untyped-call]
        log.info("slack_connected")
        yield socket
    except TimeoutError as error:
        raise Unavailable("Slack's socket can't be reached just now.") from error
    finally:
        await running.settle(CLOSE_SECONDS)
        await socket.close_async()  # type: ignore[no-untyped-call]
        client = socket.client
        tasks = [client.message_processor, client.current_session_monitor, client.message_receiver]
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
