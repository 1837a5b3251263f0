"""Slack as a `ChatPlatform`: one process or several listen, every worker sends and shows live text."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from slack_bolt.request.async_request import AsyncBoltRequest

from adapters.base import BotAccount, DirectPlatform, Running, stay_up
from adapters.chat.buttons import buttons_below
from adapters.chat.checkpoint import Checkpoint, attend
from adapters.chat.live import LIVE_AFTER
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.install import routes as install
from adapters.slack.install.tokens import open_clients
from adapters.slack.install.uninstall import Uninstall
from adapters.slack.interactions.respond import REPLACE, Responses
from adapters.slack.missed import READ_SECONDS, Missed
from adapters.slack.receivers import Receivers
from adapters.slack.sending.buttons import to_rows
from adapters.slack.sending.live import offer_stop, show
from adapters.slack.sending.reply import send, withdraw
from adapters.slack.sending.sessions import set_finished, status_after, try_finished
from adapters.slack.sending.shown import ShownMessages
from adapters.slack.settings import SlackSettings
from adapters.slack.transport import http
from adapters.slack.transport.api import Refused, TokenRefused, Web
from adapters.slack.transport.clients import Clients
from adapters.slack.transport.places import Places
from adapters.slack.transport.socket import open_socket
from shared.errors import ConfigurationError, Unavailable
from shared.messages import Place

if TYPE_CHECKING:
    from slack_bolt.response import BoltResponse
    from starlette.routing import Route

    from adapters.slack.install.installations import Installations
    from agent.app import App
    from agent.live.announcer import LiveTurn
    from agent.queue.outbox import Reply

NO_TRANSPORT = (
    "SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET (HTTP) is not set; docs/slack.md says where to get one."
)
OWN_HOST = re.compile(r"https://([a-z0-9-]+\.)*slack\.com/")


class SlackPlatform(DirectPlatform):
    """Slack with one token, or with the tokens of all workspaces that have installed the app."""

    name = PLATFORM
    settings: SlackSettings
    reasons: ClassVar[Mapping[str | int, str]] = {
        "channel_not_found": "I can't see that channel; somebody in it can invite me",
        "not_in_channel": "I am not in that channel; somebody in it can invite me",
        "is_archived": "that channel is archived",
        "restricted_action": "only some people may write there",
        "restricted_action_read_only_channel": "only some people may write there",
        "restricted_action_thread_only_channel": "only some people may write there",
        "restricted_action_non_threadable_channel": "I may not write there",
        "restricted_action_thread_locked": "that thread is locked",
    }
    reports_connection = has_directs_of_servers = True

    def __init__(self, settings: SlackSettings, read_seconds: float = READ_SECONDS) -> None:
        super().__init__(settings)
        self._read_seconds = read_seconds
        self._clients: Clients | None = None
        self._receivers: Receivers | None = None
        self._missed: Missed | None = None
        self._checkpoint: Checkpoint | None = None
        # Whether what notes for requests how far this process is has ended.
        self._has_ended: Callable[[], bool] | None = None
        self._installations: Installations | None = None
        self._running = Running()
        self._live_messages = ShownMessages()

    @property
    def clients(self) -> Clients:
        """Return the Web API clients; raises `Unavailable` while the platform is not open."""
        if self._clients is None:
            raise Unavailable("Slack is not open in this process.")
        return self._clients

    async def open(self, app: "App") -> None:
        """Create the Web API clients from the app's collaborators; no request is sent yet."""
        await super().open(app)
        self._clients, self._installations = open_clients(app, self.settings)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._running.settle(0)
        if self._clients is not None:
            await self._clients.aclose()
        if self._receivers is not None:
            await self._receivers.aclose()
        self._clients = self._receivers = self._missed = self._checkpoint = self._has_ended = None
        await super().aclose()

    async def listen(self, app: "App") -> None:
        """Accept events until cancelled, through a socket or as signed HTTP requests."""
        if self.settings.app_token is None and self.settings.signing_secret is None:
            raise ConfigurationError(NO_TRANSPORT)
        await super().listen(app)

    async def receive(self) -> None:
        """Hold a socket, or wait for requests on the web adapter's routes."""
        # Reports a refused token now and not with the first message; installed workspaces are not affected.
        with suppress(Unavailable):
            await self.clients.find(None)
        secret = self.settings.app_token
        if secret is None:
            await self._listen_while_connected(_is_served)
            return
        bot = BotAccount(self.app.database, PLATFORM, secret.get_secret_value())
        places = Places(self.app.database, bot, self.app.clock)
        async with (
            places.held(),
            open_socket(
                self._open_receivers(), self.clients, secret, clock=self.app.clock, running=self._running
            ) as connection,
        ):

            async def is_connected() -> bool:
                await places.keep()
                return bool(await connection.client.is_connected())

            await self._listen_while_connected(is_connected)

    async def _listen_while_connected(self, is_connected: Callable[[], Awaitable[bool]]) -> None:
        """Listen while there is a connection, and catch up on messages from before."""
        self.connected.set()
        token = self.settings.bot_token
        account = token.get_secret_value() if token is not None else str(self.settings.client_id)
        checkpoint = self._checkpoint = self._checkpoint or Checkpoint(self.app.database, PLATFORM, account)
        watching, missed = None, self._open_receivers()
        try:
            watching = missed.watch(await checkpoint.find_gap())
            await attend(self.app, checkpoint, is_connected, find_oldest=missed.find_oldest, catch_up=missed.catch_up)
        finally:
            self.connected.clear()
            if watching is not None:
                watching.cancel()
                # It may still have a connection of the database.
                await asyncio.gather(watching, return_exceptions=True)

    async def dispatch(self, body: str, headers: Mapping[str, str]) -> "BoltResponse":
        """Handle an HTTP request whose signature has been verified."""
        if not self.connected.is_set() and (self._has_ended is None or self._has_ended()):
            # The web adapter listens with its first request.
            listening = partial(self._listen_while_connected, _is_served)
            self._has_ended = self._running.start(stay_up(PLATFORM, listening, self.app.clock.monotonic), "slack mark")
        with self._running.kept():
            return await self._open_receivers().async_dispatch(AsyncBoltRequest(body=body, headers=dict(headers)))

    def routes(self) -> "Sequence[Route]":
        """Return the routes for Slack's requests and for installations."""
        requests = http.routes(self.settings.signing_secret, self.app.clock, self.dispatch)
        return [*requests, *install.routes(self.settings)]

    def outage_scope(self, place: Place) -> str:
        """Return the workspace: one may be away, or refuse its token, while others answer."""
        return place.server or ""

    async def send(self, reply: "Reply") -> str | None:
        """Post a reply once; to a click in the place of what was clicked, which can be repeated."""
        response = (reply.reply_to or "").rpartition(" ")[2]
        if response.startswith(REPLACE):
            # Half an hour later it is posted as others are.
            with suppress(Refused):
                await Responses(self.clients).change(response.removeprefix(REPLACE), reply.content)
                return None
        return await super().send(reply)

    async def withdraw(self, reply: "Reply", key: str) -> None:
        """Remove the live message, and the status of its thread."""
        web = await self.clients.get(reply.place.server)
        await withdraw(web, reply, self._live_messages)
        await self._end_status(web, reply)

    async def post_reply(self, reply: "Reply", key: str) -> str | None:
        """Post a reply by the Web API, or by the response URL of a command in a channel where the agent is not."""
        web = await self.clients.get(reply.place.server)
        rows = to_rows(buttons_below(reply, self.app.clock.now()))
        try:
            ts = await send(self.app, web, reply, key=key, rows=rows, live_messages=self._live_messages)
        except TokenRefused as error:
            if self._installations is not None:
                uninstall = Uninstall(self.clients, self._installations)
                await uninstall.on_refused(web.token, error.fields.get("slack_code"))
            raise
        except Refused as error:
            await Responses(self.clients).reply(reply, rows, error=error)
            return None
        await self._end_status(web, reply)
        return ts

    async def open_direct(self, account: str, server: str | None = None) -> str:
        """Return the channel of the direct messages with a person in a workspace."""
        return await (await self.clients.get(server)).open_direct(account)

    async def post_notice(self, place: Place, text: str, key: str) -> None:
        """Post a sentence."""
        await (await self.clients.get(place.server)).call("chat.postMessage", channel=place.channel, text=text)

    async def _end_status(self, web: Web, reply: "Reply") -> None:
        had_status = reply.turn_id in self._live_messages.processing
        self._live_messages.processing.discard(reply.turn_id)
        delivery = reply.delivery
        has_asked = delivery.has_open_question is not None
        if reply.place.thread is None or not (delivery.was_resumed or had_status or has_asked):
            return
        status = status_after(reply)
        if not await try_finished(web, reply.place, status):
            # The reply is delivered, however long Slack does not accept its status.
            hours = self.app.settings.delivery_hours
            self._running.start(set_finished(web, reply.place, status, hours=hours), "session status")

    async def show(self, turn: "LiveTurn") -> None:
        """Show an answer as live text, unless it is complete before."""
        if await turn.ends_within(LIVE_AFTER):
            return
        web = await self.clients.get(turn.place.server)
        await asyncio.gather(
            show(self.app, web, turn, live_messages=self._live_messages), offer_stop(self.app, web, turn)
        )

    async def find_headers(self, url: str, credential: str) -> Mapping[str, str]:
        """Return the workspace's token for a file on Slack's hosts, and no headers for any other URL."""
        web = await self.clients.find(credential.partition(":")[2])
        if web is None or not (OWN_HOST.match(url) or self.app.files.http.is_platform(url)):
            return {}
        return {"authorization": f"Bearer {web.token.secret.get_secret_value()}"}

    def _open_receivers(self) -> Missed:
        if self._missed is None:
            self._receivers = Receivers(
                *(self.app, self.settings, self._running),
                clients=self.clients,
                installations=self._installations,
                cells=self.cells,
            )
            self._missed = Missed(self._receivers, self.app.clock, self._running, seconds=self._read_seconds)
        return self._missed


async def _is_served() -> bool:
    # Whoever listens by HTTP is reached as long as it runs.
    return True
