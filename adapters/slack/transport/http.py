"""Slack's requests over HTTP: signed over the raw body, not older than five minutes, and each one once."""

import hashlib
import hmac
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared.clock import Clock
from shared.log import get_logger

if TYPE_CHECKING:
    from slack_bolt.response import BoltResponse

    from agent.app import App

PATHS = ("/slack/events", "/slack/interactions", "/slack/commands")
MAX_BYTES = 1024 * 1024
OLDEST_SECONDS = 300
REMEMBERED = 20_000
MOMENT = re.compile(r"[0-9]{1,12}")

log = get_logger()


@runtime_checkable
class TakesRequests(Protocol):
    """The platform as the web door sees it."""

    async def take(self, body: str, headers: Mapping[str, str]) -> "BoltResponse":
        """Take a request whose signature is genuine."""
        ...


class Signatures:
    """Tells genuine requests from others; nothing that is sent makes it raise."""

    def __init__(self, secret: str, clock: Clock) -> None:
        self._secret, self._clock = secret.encode(), clock
        self._checkpoint: OrderedDict[str, float] = OrderedDict()

    def find_fault(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """Return what is wrong with a request, None when it is genuine, of now, and here for the first time."""
        moment = headers.get("x-slack-request-timestamp", "")
        if not MOMENT.fullmatch(moment):
            return "timestamp"
        now = self._clock.now().timestamp()
        if abs(now - int(moment)) > OLDEST_SECONDS:
            return "age"
        given = headers.get("x-slack-signature", "")
        if not hmac.compare_digest(self._sign(moment, body).encode(), given.encode("utf-8", "replace")):
            return "signature"
        return self._find_replay(given, now)

    def forget(self, headers: Mapping[str, str]) -> None:
        """Let a request come again that could not be taken: Slack may send it within the same second."""
        self._checkpoint.pop(headers.get("x-slack-signature", ""), None)

    def _sign(self, moment: str, body: bytes) -> str:
        base = b"v0:" + moment.encode() + b":" + body
        return "v0=" + hmac.new(self._secret, base, hashlib.sha256).hexdigest()

    def _find_replay(self, signature: str, now: float) -> str | None:
        while self._checkpoint and (
            len(self._checkpoint) > REMEMBERED or next(iter(self._checkpoint.values())) < now - OLDEST_SECONDS
        ):
            self._checkpoint.popitem(last=False)
        if signature in self._checkpoint:
            return "replay"
        # A request may be dated up to five minutes ahead: it is remembered until that has passed as well.
        self._checkpoint[signature] = now + OLDEST_SECONDS
        return None


def routes() -> list[Route]:
    """Return where Slack sends events, clicks and commands to."""
    # One for all: what was sent to one address can't be sent again to another.
    adapter = _Door()
    return [Route(path, adapter.post, methods=["POST"]) for path in PATHS]


class _Door:
    # What it needs comes with the first request.
    def __init__(self) -> None:
        self._signatures: Signatures | None = None

    async def post(self, request: Request) -> Response:
        house: App = request.app.state.parley
        secret, platform = house.settings.slack_signing_secret, house.senders.get("slack")
        if secret is None or not isinstance(platform, TakesRequests):
            return Response("Slack is not set up here: SLACK_SIGNING_SECRET is missing.", 404)
        body = await _read(request)
        if body is None:
            return Response("That is more than Slack sends.", 413)
        self._signatures = self._signatures or Signatures(secret.get_secret_value(), house.clock)
        fault = self._signatures.find_fault(request.headers, body)
        if fault is not None:
            log.warning("slack_request_refused", fault=fault)
            return Response("Not signed by Slack.", 401)
        answer = await platform.take(body.decode("utf-8", "replace"), request.headers)
        if answer.status >= 400:
            self._signatures.forget(request.headers)
        headers = {name: values[0] for name, values in answer.headers.items() if values}
        return Response(answer.body, answer.status, headers)


async def _read(request: Request) -> bytes | None:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            return None
    return body
