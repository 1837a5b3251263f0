"""Slack's requests over HTTP: the signature covers the raw body, a request older than five minutes is refused."""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from pydantic import SecretStr, ValidationError
from slack_sdk import signature
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adapters.slack.transport import PATHS
from adapters.slack.transport.shapes import Sent
from shared.clock import Clock
from shared.log import get_logger

if TYPE_CHECKING:
    from slack_bolt.response import BoltResponse

MAX_BYTES = 1024 * 1024
OLDEST_SECONDS = 300
REMEMBERED = 20_000
MOST_CHECK = 2000

log = get_logger()
Dispatch = Callable[[str, Mapping[str, str]], Awaitable["BoltResponse"]]


class Signatures:
    """Verifies signatures and detects replays; invalid input never raises."""

    def __init__(self, secret: str, clock: Clock) -> None:
        self._clock = clock
        self._verifier = signature.SignatureVerifier(secret, _LibraryClock(clock))
        self._digests: OrderedDict[str, float] = OrderedDict()

    def find_fault(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """Return why a request is refused ("signature" or "replay"); None if it is genuine and new."""
        moment, digest = headers.get("x-slack-request-timestamp", ""), headers.get("x-slack-signature", "")
        try:
            is_genuine = self._verifier.is_valid(body, moment, digest)
        except (ArithmeticError, TypeError, ValueError):
            # The library raises if the time is not a number, or the signature or body has another encoding.
            is_genuine = False
        if not is_genuine:
            return "signature"
        now = self._clock.now().timestamp()
        while self._digests and (
            len(self._digests) > REMEMBERED or next(iter(self._digests.values())) < now - OLDEST_SECONDS
        ):
            self._digests.popitem(last=False)
        if digest in self._digests:
            return "replay"
        # A request may be dated up to five minutes ahead; it is remembered until that time has passed, too.
        self._digests[digest] = now + OLDEST_SECONDS
        return None

    def forget(self, headers: Mapping[str, str]) -> None:
        """Allow a request again that could not be handled: Slack may repeat it within the same second."""
        self._digests.pop(headers.get("x-slack-signature", ""), None)


class _LibraryClock(signature.Clock):
    # Our clock in the library's interface.
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now().timestamp()


def routes(secret: SecretStr | None, clock: Clock, dispatch: Dispatch) -> list[Route]:
    """Return the routes for events, clicks and commands; `take` is called with genuine requests only."""
    # Shared by all routes, so that a request can't be replayed on another path.
    signatures = Signatures(secret.get_secret_value(), clock) if secret is not None else None

    async def post(request: Request) -> Response:
        if signatures is None:
            return Response("Slack is not set up here: SLACK_SIGNING_SECRET is missing.", 404)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                return Response("That is more than Slack sends.", 413)
        if is_ssl_check(body):
            # Slack tests the certificate of the address, without a signature.
            return Response()
        fault = signatures.find_fault(request.headers, body)
        if fault is not None:
            log.warning("slack_request_refused", fault=fault)
            return Response("Not signed by Slack.", 401)
        text = body.decode("utf-8", "replace")
        misfit = find_misfit(text, request.headers.get("content-type", ""))
        if misfit is not None:
            log.warning("slack_request_refused", fault="form", cause=misfit)
            return Response("That is no request of Slack's.", 400)
        answer = await dispatch(text, request.headers)
        if answer.status >= 400:
            signatures.forget(request.headers)
        headers = {name: values[0] for name, values in answer.headers.items() if values}
        return Response(answer.body, answer.status, headers)

    return [Route(path, post, methods=["POST"]) for path in PATHS]


def is_ssl_check(body: bytes) -> bool:
    """Return whether this is Slack's test of a certificate."""
    return b"ssl_check=1" in body[:MOST_CHECK].split(b"&")


def find_misfit(body: str, content_type: str) -> str | None:
    """Return why a body is no event, click, form or command of Slack's; None if it is one."""
    try:
        if "json" in content_type or body.lstrip()[:1] in ("{", "["):
            Sent.model_validate(json.loads(body))
            return None
        fields = {name: values[0] for name, values in parse_qs(body).items()}
        Sent.model_validate(json.loads(fields["payload"]) if "payload" in fields else fields)
    except ValidationError as error:
        # Without the value, which may be what a person wrote.
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except (ValueError, RecursionError) as error:
        return f"no JSON: {type(error).__name__}"
    return None if "payload" in fields or "command" in fields else "neither a payload nor a command"
