"""The platform as the house uses it: it listens in one process or several, and sends and shows in every worker."""

import asyncio
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from slack_bolt.request.async_request import AsyncBoltRequest

from adapters.base import stay_up
from adapters.chat.running import Running
from adapters.slack.events.catch_up import catch_up
from adapters.slack.events.checkpoint import Checkpoint, attend
from adapters.slack.events.events import Events
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.install.uninstall import Uninstall
from adapters.slack.interactions.respond import Responses
from adapters.slack.sending import notices
from adapters.slack.sending.buttons import answer_blocks
from adapters.slack.sending.live import ShownMessages, offer_stop, show
from adapters.slack.sending.render import MESSAGE_LIMIT
from adapters.slack.sending.reply import send
from adapters.slack.transport.api import Json, Refused, TokenRefused, Web
from adapters.slack.transport.bolt import build_app
from adapters.slack.transport.clients import Clients
from adapters.slack.transport.socket import open_socket
from adapters.slack.transport.tokens import open_installations, open_tokens
from agent.queue.delivery_info import find_delivery_info
from shared.db.database import DatabaseLost
from shared.errors import ConfigurationError, Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from slack_bolt.async_app import AsyncApp
    from slack_bolt.response import BoltResponse

    from adapters.slack.install.installations import Installations
    from agent.app import App
    from agent.events.live import LiveTurn
    from agent.queue.delivery_info import DeliveryInfo
    from agent.queue.outbox import Reply
    from shared.settings import Settings

NO_TRANSPORT = (
    "SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP) is not set; docs/slack.md says where to get one."
)
OWN_HOST = re.compile(r"https://([a-z0-9-]+\.)*slack\.com/")

log = get_logger()


class SlackPlatform:
    """Slack with one token, or with those of all workspaces that have installed the app."""

    platform = PLATFORM
    message_limit = MESSAGE_LIMIT

    def __init__(self, settings: "Settings") -> None:
        self._settings = settings
        self._app: App | None = None
        self._clients: Clients | None = None
        self._bolt: AsyncApp | None = None
        self._events: Events | None = None
        self._installations: Installations | None = None
        self._running = Running()
        self._shown = ShownMessages()

    async def open(self, app: "App") -> None:
        """Take the house's collaborators; nothing is sent yet."""
        if self._app is None:
            self._app = app
            self._clients = Clients(self._settings, app.clock)
            self._installations = open_installations(app)
            self._clients.use(open_tokens(app, self._clients, self._installations))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._running.settle(0)
        if self._clients is not None:
            await self._clients.aclose()
        self._app = self._clients = self._bolt = self._events = None

    async def listen(self, app: "App") -> None:
        """Take what people write, until cancelled: through a socket, or by waiting for signed requests."""
        if self._settings.slack_app_token is None and self._settings.slack_signing_secret is None:
            raise ConfigurationError(NO_TRANSPORT)
        # Where it sends as well, whoever opened it closes it: answers go out for longer than messages come in.
        is_ours = self._app is None
        await self.open(app)
        try:
            await stay_up(PLATFORM, self._hold, app.clock.monotonic)
        finally:
            if is_ours:
                await self.aclose()

    async def _hold(self) -> None:
        app, clients = self._opened()
        # A token that Slack refuses is told now, not with the first message; workspaces with their own go on.
        with suppress(Unavailable):
            await clients.find(None)
        secret = self._settings.slack_app_token
        if secret is None:
            # What comes by HTTP is taken by the web door.
            await self._attend(_always)
            return
        async with open_socket(self._listener(), clients, secret, app.clock, self._running) as socket:
            await self._attend(socket.client.is_connected)

    async def _attend(self, is_connected: "Callable[[], Awaitable[bool]]") -> None:
        """Listen on while there is a connection; what was written before there was one is read."""
        app, clients = self._opened()
        self._listener()
        seen = Checkpoint(app.database, self._settings)
        since = await seen.find_gap()
        try:
            if since is not None and self._events is not None:
                self._running.start(catch_up(app, clients, since, self._events.take), "catch-up")
            await attend(app, seen, is_connected)
        finally:
            with suppress(DatabaseLost):
                await seen.leave()

    async def take(self, body: str, headers: "Mapping[str, str]") -> "BoltResponse":
        """Take a request of Slack's that came by HTTP and whose signature is genuine."""
        self._opened()
        with self._running.kept():
            return await self._listener().async_dispatch(AsyncBoltRequest(body=body, headers=dict(headers)))

    async def send(self, reply: "Reply") -> str | None:
        """Say it by the Web API; the same reply is never there twice."""
        app, clients = self._opened()
        web = await clients.get(reply.place.server)
        facts = await find_delivery_info(app.database, reply.turn_id)
        rows = self._rows(app, reply, facts)
        try:
            return await send(app, web, reply, facts, rows, self._shown)
        except TokenRefused as error:
            if self._installations is not None:
                await Uninstall(clients, self._installations).refused(web.token, error.fields.get("slack_code"))
            raise
        except Refused as error:
            return await self._send_otherwise(web, reply, facts, rows, error)

    async def _send_otherwise(
        self, web: Web, reply: "Reply", facts: "DeliveryInfo", rows: "Sequence[Json]", error: Refused
    ) -> str | None:
        app, clients = self._opened()
        try:
            await Responses(clients).reply(reply, facts, rows, error)
        except Refused:
            await notices.tell(app, web, reply, facts.asker, error)
            raise
        return None

    def _rows(self, app: "App", reply: "Reply", facts: "DeliveryInfo") -> "list[Json]":
        if not reply.turn_id or facts.asker is None:
            return []
        now = app.clock.now()
        status, was_edited = facts.status, facts.was_edited
        return answer_blocks(reply.turn_id, facts.asker, now, reply.choices, status=status, was_edited=was_edited)

    async def show(self, turn: "LiveTurn") -> None:
        """Show an answer while it grows."""
        app, clients = self._opened()
        web = await clients.get(turn.place.server)
        await asyncio.gather(show(app, web, turn, self._shown), offer_stop(app, web, turn))

    async def find_headers(self, url: str, credential: str) -> "Mapping[str, str]":
        """Return the workspace's token for a file of Slack's own; nobody else is shown it."""
        app, clients = self._opened()
        web = await clients.find(credential.partition(":")[2])
        if web is None or not (OWN_HOST.match(url) or app.http.is_platform(url)):
            return {}
        return {"authorization": f"Bearer {web.token.secret.get_secret_value()}"}

    def _listener(self) -> "AsyncApp":
        app, clients = self._opened()
        if self._bolt is None:
            self._events = Events(app, clients, self._running)
            self._bolt = build_app(app, clients, self._running, self._events, self._installations)
        return self._bolt

    def _opened(self) -> "tuple[App, Clients]":
        if self._app is None or self._clients is None:
            raise Unavailable("Slack is not open in this process.")
        return self._app, self._clients


async def _always() -> bool:
    return True
