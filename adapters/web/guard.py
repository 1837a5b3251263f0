"""What is refused before an endpoint sees it: half-open or oversize requests, addresses with a NUL, a wrong token."""

import asyncio
import hmac
import ipaddress
import json
import resource
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, cast
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from adapters.web.faults import Fault, answer
from adapters.web.tokens import Person, find_person
from agent.app import App

# Several times the size of usual cookies, tokens and URLs.
MAX_HEAD_BYTES = 64 * 1024
# From the first byte, or from the connection, to the end of the headers.
HEAD_SECONDS = 15.0
# In each such period a body has to grow by so many bytes, which the slowest mobile networks manage.
BODY_SECONDS, BODY_BYTES = 20.0, 8 * 1024
# Of one address; a quarter of the process's files, so that others are served whatever one address does.
MAX_HALF_OPEN = max(16, min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))

NOT_FOR_PERSONS = "This token speaks for one person; this address takes the API_TOKEN alone."
NO_SCOPE = "This token has not the scope {scope}."

Endpoint = Callable[[Request], Awaitable[Response]]


def to_refusal(status: str, code: str, message: str) -> bytes:
    """Return the response that refuses a request and closes its connection; its address may not be known yet."""
    body = json.dumps(
        {"error": {"code": code, "message": message, "type": "invalid_request_error", "param": None}}
    ).encode()
    head = [
        f"HTTP/1.1 {status}".encode(),
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"connection: close",
    ]
    return b"\r\n".join([*head, b"", body])


NO_NUL = "The address contains a NUL character (%00); leave it out."
TOO_LARGE = to_refusal(
    "431 Request Header Fields Too Large",
    "headers_too_large",
    f"The address and the headers of a request may have {MAX_HEAD_BYTES // 1024} KB together.",
)
TOO_SLOW = to_refusal("408 Request Timeout", "request_too_slow", "The request did not arrive in time; send it again.")


class HalfOpen:
    """The connections whose request has not arrived whole, by address: of too many, the oldest is closed."""

    def __init__(self, most: int = MAX_HALF_OPEN) -> None:
        self._most = most
        # Dicts keep the order of insertion.
        self._of: defaultdict[str, dict[BoundedProtocol, None]] = defaultdict(dict)

    def add(self, connection: "BoundedProtocol") -> None:
        """Count a connection, and close the oldest one of its address if they are too many."""
        connections = self._of[connection.address]
        connections[connection] = None
        if len(connections) > self._most:
            oldest = next(iter(connections))
            self.discard(oldest)
            oldest.transport.abort()

    def discard(self, connection: "BoundedProtocol") -> None:
        """Stop counting a connection whose request is whole, or which is closed."""
        connections = self._of.get(connection.address)
        if connections is not None:
            connections.pop(connection, None)
            if not connections:
                del self._of[connection.address]


class BoundedProtocol(HttpToolsProtocol):
    """Closes the connection if headers, or what follows the body, grow without end, or if a request does not arrive."""

    def __init__(
        self,
        *args: Any,
        half_open: HalfOpen,
        head_seconds: float = HEAD_SECONDS,
        body_seconds: float = BODY_SECONDS,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._half_open, self._head_seconds, self._body_seconds = half_open, head_seconds, body_seconds
        self._head_bytes = self._body_bytes = 0
        self._is_in_head = True
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """Return the address of the other side."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Wait for the first request."""
        super().connection_made(transport)
        self._expect(self._head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, and count those that are not part of a body."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_in_head and not self._head_bytes:
            self._expect_nothing()
        elif self._deadline is None:
            self._expect(self._head_seconds if self._is_in_head else self._body_seconds)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(TOO_LARGE)

    def on_headers_complete(self) -> None:
        """Start a request."""
        self._head_bytes, self._is_in_head = 0, False
        self._body_bytes = 0
        self._expect_nothing()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body."""
        self._head_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Finish the request."""
        self._head_bytes, self._is_in_head = 0, True
        super().on_message_complete()

    def _expect(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._on_deadline)
        self._half_open.add(self)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._half_open.discard(self)

    def _on_deadline(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        # A body that nobody reads at the moment is not the client's delay.
        is_held_up = not self._is_in_head and (self.flow.read_paused or bool(self.cycle.body))
        if is_held_up or (not self._is_in_head and self._body_bytes >= BODY_BYTES):
            self._body_bytes = 0
            self._expect(self._body_seconds)
        else:
            self._half_open.discard(self)
            self._refuse(TOO_SLOW)

    def _refuse(self, answer: bytes) -> None:
        # It is None before the first request, despite its type.
        cycle = cast(RequestResponseCycle | None, self.cycle)
        is_next = cycle is not None and not cycle.response_started and not self._is_in_head and not self.pipeline
        if is_next or (self._is_in_head and (cycle is None or cycle.response_complete)):
            self.transport.write(answer)
            self.transport.close()
        else:
            self.transport.abort()


class ReadableAddresses:
    """Refuses requests whose path, query or cookies contain a NUL: it means nothing there, and no table keeps it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer such a request with a 400; pass on every other."""
        if scope["type"] == "http":
            # Half of a surrogate pair needs no check: decoding replaces it. A cookie may write a NUL as three octal
            # digits.
            is_in_cookie = any(name == b"cookie" and b"\\000" in value for name, value in scope["headers"])
            if "\x00" in scope["path"] or b"%00" in scope["query_string"] or is_in_cookie:
                await answer(Request(scope), Fault(400, "invalid_request", NO_NUL))(scope, receive, send)
                return
        await self._app(scope, receive, send)


# Where the app of another cell stands for a request.
APP = "parley.app"


def app_of(request: Request) -> App:
    """Return the app that answers the request: that for which this server was built, unless it went to another cell."""
    app: App = request.scope.get(APP) or request.app.state.parley
    return app


def apps_of(request: Request) -> Sequence[App]:
    """Return the apps of all cells that can be reached; the only one where there are no cells."""
    cells = request.app.state.cells
    return (app_of(request),) if cells is None else tuple(cells)


def has_copy(request: Request, tag: str) -> bool:
    """Return whether the caller says that they have what carries this tag already."""
    tags = {text.strip().removeprefix("W/") for text in request.headers.get("if-none-match", "").split(",")}
    return bool(tags & {tag, "*"})


def is_ours(app: App, host: str) -> bool:
    """Tell whether a Host header names this machine, or the host of PUBLIC_URL.

    Else another site's name could lead here, and its page would read ours.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    public = app.settings.public_url
    if name == "localhost" or (public is not None and name == urlsplit(public).hostname):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def with_token(endpoint: Endpoint) -> Endpoint:
    """Require `Authorization: Bearer API_TOKEN`."""

    @wraps(endpoint)
    async def checked(request: Request) -> Response:
        await authenticate(request, None)
        return await endpoint(request)

    return checked


def with_scope(scope: str) -> Callable[[Endpoint], Endpoint]:
    """Require the API_TOKEN, or a person's token that may do this; `person_of` tells which."""

    def decorate(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def checked(request: Request) -> Response:
            request.state.person = await authenticate(request, scope)
            return await endpoint(request)

        return checked

    return decorate


async def authenticate(request: Request, scope: str | None) -> Person | None:
    """Return the person for whom the token speaks, None for the API_TOKEN; raises a 401, or a 403 without the scope."""
    app = app_of(request)
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    token = text.strip() if scheme.lower() == "bearer" else ""
    if token and hmac.compare_digest(token.encode(), app.secrets.api_token.encode()):
        return None
    person = await find_person(app, token)
    if person is None:
        reason = "Send the header Authorization: Bearer followed by the API_TOKEN of this Parley, or a token of yours."
        raise Fault(401, "unauthorized", reason, headers={"WWW-Authenticate": "Bearer"})
    if scope is None or scope not in person.scopes:
        raise Fault(403, "forbidden", NOT_FOR_PERSONS if scope is None else NO_SCOPE.format(scope=scope))
    return person


def person_of(request: Request) -> Person | None:
    """Return the person for whom the request's token speaks; None: it is the API_TOKEN, which speaks for all."""
    person: Person | None = request.state.person
    return person
