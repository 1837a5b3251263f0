"""The stand-in itself: one HTTP server for the Web API, files, the authorization page and Socket Mode."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal
from uuid import uuid4

from aiohttp import web

from tests.standins.slack import accounts, assistant, chat, conversations, files, streams, views
from tests.standins.slack.api import METHODS, Call, Method, read_arguments
from tests.standins.slack.delivery import Delivery
from tests.standins.slack.events import Events
from tests.standins.slack.interactions import Interactions
from tests.standins.slack.journal import Fault, Journal, Sent
from tests.standins.slack.limits import Limits
from tests.standins.slack.manifests import make_app
from tests.standins.slack.rules import Refused
from tests.standins.slack.socket import SocketMode
from tests.standins.slack.world import SCOPES, Installation, Json, World, stamp
from tests.standins.stand_in import ChatStandIn

# Importing these modules registers their methods.
_ = (accounts, assistant, chat, conversations, files, streams, views)


class SlackStandIn(ChatStandIn):
    """Slack on loopback, open as long as its `async with` block."""

    def __init__(self, *, port: int = 0, limits: Limits | None = None, scopes: Iterable[str] = SCOPES) -> None:
        super().__init__(web.Server(self._serve, access_log=None), port)
        self.world = World()
        self.installation: Installation = self.world.install(self.world.add_team("Parley"), scopes)
        self.app_token, self.signing_secret = f"xapp-1-{uuid4().hex}", uuid4().hex
        self.client_id, self.client_secret = f"{uuid4().int % 10**12}.{uuid4().int % 10**12}", uuid4().hex
        self.limits = limits or Limits()
        self.journal = Journal()
        self.faults: list[Fault] = []
        self.codes: dict[str, Json] = {}
        self.approver: Json | None = None
        # Fields that are added to, or replace, the usual response to an installation.
        self.install_more: Json = {}
        self.stream_seconds = 300.0
        # None: not created from a manifest, with all scopes and events.
        self.commands: set[str] | None = None
        self.shortcuts: set[str] | None = None
        self.redirect_urls: list[str] | None = None
        # "agent": the messaging experience of today's apps; "assistant": the panel of apps from before July 2026.
        self.experience: Literal["agent", "assistant"] = "assistant"
        self.is_old_app = False
        self.used_scopes: set[str] = set()
        self.socket = SocketMode(self)
        self.delivery = Delivery(self)
        self.events = Events(self)
        self.interactions = Interactions(self)
        self._running: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self.socket.drop_all()
        await self.delivery.close()

    @property
    def api_base(self) -> str:
        """Return what `SLACK_API_BASE` is set to."""
        return f"{self.base}/api/"

    @property
    def bot_token(self) -> str:
        return self.installation.token

    @property
    def bot_user_id(self) -> str:
        return str(self.installation.bot["id"])

    @property
    def team_id(self) -> str:
        return str(self.installation.team["id"])

    def environment(self) -> dict[str, str]:
        """Return the settings of a process that talks to it."""
        return {
            "SLACK_API_BASE": self.api_base,
            "SLACK_BOT_TOKEN": self.bot_token,
            "SLACK_APP_TOKEN": self.app_token,
        }

    def calls(self, method: str = "", *, ok: bool | None = None) -> list[Sent]:
        """Return the journal's calls of this method: all, the successful or the failed ones."""
        return [call for call in self.journal.calls if method in ("", call.method) and ok in (None, call.ok)]

    def fail(self, method: str, **fields: Any) -> Fault:
        """Make the next calls of a method fail, as described by `Fault`."""
        fault = Fault(method, **fields)
        self.faults.append(fault)
        return fault

    async def until_message(
        self, channel: Json | str, criterion: Callable[[Json], Any] | str = "", seconds: float = 90
    ) -> Json:
        """Return the bot's newest finished message in a channel with this text, or accepted by `wanted`."""
        matches = criterion if callable(criterion) else lambda message: criterion in message["text"]
        key = channel if isinstance(channel, str) else channel["id"]

        def found() -> Json | None:
            posts = [post for post in self.world.messages[key].values() if "bot_id" in post]
            replies = [post for post in posts if not post.get("is_streaming")]
            return next((reply for reply in reversed(replies) if matches(reply)), None)

        message: Json = await self.until(found, seconds)
        return message

    def run(self, work: Any) -> None:
        """Run a coroutine in the background; it ends with the stand-in."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def make_app(self, manifest: Json) -> None:
        """Configure the app from a manifest; raises `ManifestRefused`."""
        await make_app(self, manifest)

    async def deliver_to(self, url: str, **addresses: str) -> None:
        """Send events, interactions and commands to this address over HTTP instead of Socket Mode."""
        await self.delivery.deliver_to(url, **addresses)

    async def change(self, channel: Json, message: Json, fields: Json, *, edited_by: str) -> None:
        """Edit a message and send the event."""
        before = dict(message)
        message.update(fields)
        if "blocks" not in fields:
            message.pop("blocks", None)
        message["edited"] = {"user": edited_by, "ts": stamp()}
        await self.events.changed(channel, message, before)

    async def forget(self, channel: Json, message: Json) -> None:
        """Delete a message; one with replies leaves a tombstone."""
        messages = self.world.messages[channel["id"]]
        before = dict(message)
        if message.get("reply_count"):
            message.update(subtype="tombstone", text="This message was deleted.", user="USLACKBOT", hidden=True)
            await self.events.changed(channel, message, before)
            return
        messages.pop(message["ts"], None)
        parent = messages.get(message.get("thread_ts", ""))
        if parent is not None and parent.get("reply_count"):
            parent["reply_count"] -= 1
        await self.events.deleted(channel, before)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        if path.startswith("/api/"):
            return await self._answer(request, path.removeprefix("/api/"))
        if path.startswith("/link"):
            return await self.socket.serve(request)
        if path.startswith("/upload/"):
            return await files.take_upload(self, request)
        if path.startswith("/files-pri/"):
            return files.give_content(self, request)
        if path.startswith("/respond/"):
            fault = next((fault for fault in self.faults if fault.matches("response_url", {})), None)
            if fault is not None:
                fault.times -= 1
                return web.Response(status=fault.status)
            return await self.interactions.take_response(request)
        if path.startswith("/oauth/v2/authorize"):
            return accounts.ask_to_install(self, request)
        return web.Response(status=404)

    async def _answer(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        at = time.monotonic()
        arguments, is_form = await _read(request)
        token = _token(request, arguments)
        fault = next((fault for fault in self.faults if fault.matches(name, arguments)), None)
        if fault is not None:
            fault.times -= 1
        status, headers, answer = await self._decide(request, name, token, arguments, fault)
        call = Sent(at, name, arguments, token, status, answer, is_form=is_form)
        self.journal.calls.append(call)
        await self.tell()
        if self.latency or (fault is not None and fault.seconds):
            await asyncio.sleep(self.latency + (fault.seconds if fault else 0))
        if fault is not None and fault.is_lost and request.transport is not None:
            request.transport.abort()
        call.seconds = time.monotonic() - at
        return web.json_response(answer, status=status, headers=headers)

    async def _decide(
        self, request: web.BaseRequest, name: str, token: str, arguments: Json, fault: Fault | None
    ) -> tuple[int, dict[str, str], Json]:
        if fault is not None and not fault.after:
            return fault.answer()
        scopes: dict[str, str] = {}
        try:
            method = METHODS.get(name)
            if method is None:
                raise Refused("unknown_method", req_method=name)
            installation = self._authorize(request, method, token, arguments)
            if installation is not None:
                scopes = {"x-oauth-scopes": ",".join(sorted(installation.scopes))}
            answer = await self._call(method, installation or self.installation, token, arguments)
        except Refused as error:
            headers = {"Retry-After": str(error.answer.pop("retry_after"))} if error.status == 429 else {}
            return error.status, scopes | headers, error.answer
        return fault.answer() if fault is not None and not fault.keeps_answer else (200, scopes, {"ok": True, **answer})

    def _authorize(self, request: web.BaseRequest, method: Method, token: str, arguments: Json) -> Installation | None:
        """Return the installation of the token; methods for the app itself have none."""
        if method.token == "client":
            accounts.check_client(self, request, arguments)
            return None
        if method.token == "app":
            if token != self.app_token:
                raise Refused("not_authed" if not token else "invalid_auth")
            return None
        if not token:
            raise Refused("not_authed")
        installation = self.world.installations.get(token)
        if installation is None:
            raise Refused("not_allowed_token_type" if token == self.app_token else "invalid_auth")
        if installation.error is not None:
            raise Refused(installation.error)
        return installation

    async def _call(self, method: Method, installation: Installation, token: str, arguments: Json) -> Json:
        key = arguments.get("channel") or arguments.get("channel_id")
        channel = self.world.channels.get(key) if isinstance(key, str) else None
        scope = method.scope_for(channel)
        if method.token == "bot" and scope is not None and scope not in installation.scopes:
            raise Refused("missing_scope", needed=scope, provided=",".join(sorted(installation.scopes)))
        after = self.limits.refuse(method.name, method.tier, installation.team["id"], str(key))
        if after is not None:
            raise Refused("ratelimited", status=429, retry_after=after)
        call = Call(self, installation, read_arguments(method, arguments), token)
        answer = await method.answer(call)
        if method.token == "bot" and scope is not None:
            self.used_scopes.add(scope)
        return answer


def _token(request: web.BaseRequest, arguments: Json) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    argument = arguments.pop("token", None)
    return token if scheme == "Bearer" else str(argument or "")


async def _read(request: web.BaseRequest) -> tuple[Json, bool]:
    """Return the arguments of URL and body, and whether the body was not JSON."""
    arguments: Json = dict(request.query)
    if request.content_type == "application/json":
        body = json.loads(await request.content.read() or b"{}")
        return arguments | (body if isinstance(body, dict) else {}), False
    arguments |= {key: value for key, value in (await request.post()).items() if isinstance(value, str)}
    return arguments, True
