"""The HTTP transport of the A2A SDK: sends its requests through our guarded client, which blocks internal addresses.

The origin of the agent's row is trusted and receives the row's headers. Other URLs of the agent's card are checked like
any untrusted URL and receive none of the headers.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import httpcore
import httpx

from shared.errors import Unavailable
from shared.http.client import DEFAULT_PORTS, GuardedClient

MAX_BYTES = 10 * 1024 * 1024
SILENCE_SECONDS = 60.0
# Added to the HTTP timeout, so that the timeout of the whole task expires first: its error is more helpful.
SLACK_SECONDS = 5.0
# Headers that our client sets itself; `accept-encoding` has to match the encodings that it can decode.
OURS = frozenset({"host", "content-length", "connection", "user-agent", "accept-encoding"})
# A kept-alive connection may be closed by the server just when it is reused; then it is unknown whether the task
# arrived. So each request uses a new connection.
FRESH = {"connection": "close"}


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL; an empty string if it is invalid."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return ""
    return f"{parsed.scheme}://{parsed.host}:{parsed.port or DEFAULT_PORTS.get(parsed.scheme)}"


@dataclass(frozen=True, slots=True)
class Address:
    """The URL that an admin has configured for an agent, and the headers, which are sent only to its origin."""

    url: str
    headers: Mapping[str, str] = field(repr=False)

    @property
    def origin(self) -> str:
        """Return the trusted origin."""
        return origin_of(self.url)


class Guarded(httpx.AsyncBaseTransport):
    """Sends requests through the guarded client.

    Streams stay open until `open_streams` is closed, in the asyncio task that opened them: the SDK might close them in
    another task.
    """

    def __init__(self, http: GuardedClient, address: Address, open_streams: AsyncExitStack, seconds: float) -> None:
        self._http = http
        self._address = address
        self._open_streams = open_streams
        self._seconds = seconds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; a response that is not an event stream is read completely."""
        url = str(request.url)
        is_own = origin_of(url) == self._address.origin
        headers = FRESH | {name: value for name, value in request.headers.items() if name not in OURS}
        opening = AsyncExitStack()
        response = await opening.enter_async_context(
            self._http.stream(
                request.method,
                url,
                headers={**headers, **self._address.headers} if is_own else headers,
                content=await request.aread(),
                trusted=is_own,
                follow_redirects=False,
                timeout_seconds=self._seconds + SLACK_SECONDS,
                max_bytes=MAX_BYTES,
            )
        )
        kind = response.headers.get("content-type", "")
        if response.status == 200 and "text/event-stream" in kind:
            self._open_streams.push_async_exit(opening)
            return httpx.Response(200, headers={"content-type": kind}, stream=_Pieces(response.pieces))
        async with opening:
            body = b"".join([piece async for piece in _watched(response.pieces)])
        return httpx.Response(response.status, headers={"content-type": kind}, content=body)


async def _watched(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks; raises `Unavailable` after `SILENCE_SECONDS` without one, or if the connection breaks."""
    while True:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                piece = await anext(pieces, None)
        except TimeoutError:
            raise Unavailable(f"It said nothing for {SILENCE_SECONDS:.0f} seconds.") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            # Raised while reading, not when the stream is closed, so that `carry_out` can continue by polling.
            raise Unavailable("The connection broke.") from error
        if piece is None:
            return
        yield piece


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _watched(self._pieces)
