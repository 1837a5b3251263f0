"""Slack's requests over HTTP: signed over the raw body, not older than five minutes, and each one once."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from pydantic import SecretStr
from slack_sdk import signature
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared.clock import Clock
from shared.log import get_logger

if TYPE_CHECKING:
    from slack_bolt.response import BoltResponse

PATHS = ("/slack/events", "/slack/interactions", "/slack/commands")
MAX_BYTES = 1024 * 1024
OLDEST_SECONDS = 300
REMEMBERED = 20_000

log = get_logger()
Take = Callable[[str, Mapping[str, str]], Awaitable["BoltResponse"]]


class Signatures:
    """Tells genuine requests from others; nothing that is sent makes it raise."""

    def __init__(self, secret: str, clock: Clock) -> None:
        self._clock = clock
        self._verifier = signature.SignatureVerifier(secret, _LibraryClock(clock))
        self._seen: OrderedDict[str, float] = OrderedDict()

    def find_fault(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """Return what is wrong with a request, None when it is genuine, of now, and here for the first time."""
        moment, given = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
        try:
            is_genuine = self._verifier.is_valid(body, moment, given)
        except (ArithmeticError, TypeError, ValueError):
            # The library raises for a time that is no number, and for a signature or a body in another encoding.
            is_genuine = False
        return self._find_replay(given) if is_genuine else "signature"

    def forget(self, headers: Mapping[str, str]) -> None:
        """Let a request come again that could not be taken: Slack may send it within the same second."""
        self._seen.pop(headers.get("x-slack-signature", ""), None)

    def _find_replay(self, given: str) -> str | None:
        now = self._clock.now().timestamp()
        while self._seen and (len(self._seen) > REMEMBERED or next(iter(self._seen.values())) < now - OLDEST_SECONDS):
            self._seen.popitem(last=False)
        if given in self._seen:
            return "replay"
        # A request may be dated up to five minutes ahead: it is remembered until that has passed as well.
        self._seen[given] = now + OLDEST_SECONDS
        return None


class _LibraryClock(signature.Clock):
    # Our time, as the library asks for it.
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now().timestamp()


def routes(secret: SecretStr | None, clock: Clock, take: Take) -> list[Route]:
    """Return where Slack sends events, clicks and commands to; `take` is given those whose signature is genuine."""
    # One for all: what was sent to one address can't be sent again to another.
    signatures = Signatures(secret.get_secret_value(), clock) if secret is not None else None

    async def post(request: Request) -> Response:
        if signatures is None:
            return Response("Slack is not set up here: SLACK_SIGNING_SECRET is missing.", 404)
        body = await _read(request)
        if body is None:
            return Response("That is more than Slack sends.", 413)
        fault = signatures.find_fault(request.headers, body)
        if fault is not None:
            log.warning("slack_request_refused", fault=fault)
            return Response("Not signed by Slack.", 401)
        answer = await take(body.decode("utf-8", "replace"), request.headers)
        if answer.status >= 400:
            signatures.forget(request.headers)
        headers = {name: values[0] for name, values in answer.headers.items() if values}
        return Response(answer.body, answer.status, headers)

    return [Route(path, post, methods=["POST"]) for path in PATHS]


async def _read(request: Request) -> bytes | None:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            return None
    return body
