"""What carries a talk with another agent: the SDK's requests, sent through the house's own guarded client.

The origin of the agent's row is trusted and gets the row's headers. Whatever else the agent's card names is guarded
like any address that a stranger gives, and gets none of them.
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
# The talk's own deadline comes first, and says more.
SLACK_SECONDS = 5.0
# Worked out again by our client; the last says what can be unpacked.
OURS = frozenset({"host", "content-length", "connection", "user-agent", "accept-encoding"})
# A kept connection may be closed over there in the moment in which it is used again, and nobody could tell whether the
# task had arrived.
FRESH = {"connection": "close"}


def origin_of(url: str) -> str:
    """Return scheme, host and port; empty for what is no URL."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return ""
    return f"{parsed.scheme}://{parsed.host}:{parsed.port or DEFAULT_PORTS.get(parsed.scheme)}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where an admin says that an agent is, and what is sent there and nowhere else."""

    url: str
    headers: Mapping[str, str] = field(repr=False)

    @property
    def origin(self) -> str:
        """Return the origin that is trusted."""
        return origin_of(self.url)


class Guarded(httpx.AsyncBaseTransport):
    """Sends requests through the guarded client.

    Streams stay open until `open_streams` is closed, by the task that opened them: the SDK may leave them to be closed
    by another one.
    """

    def __init__(self, http: GuardedClient, address: Address, open_streams: AsyncExitStack, seconds: float) -> None:
        self._http = http
        self._address = address
        self._open_streams = open_streams
        self._seconds = seconds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; an answer that is no stream is read whole."""
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
    """Yield the pieces; raises `Unavailable` when none comes for long."""
    while (piece := await _next(pieces)) is not None:
        yield piece


async def _next(pieces: AsyncIterator[bytes]) -> bytes | None:
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            return await anext(pieces, None)
    except TimeoutError:
        raise Unavailable(f"It said nothing for {SILENCE_SECONDS:.0f} seconds.") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        # Here and not when the stream is closed, so that the talk can go on without it.
        raise Unavailable("The connection broke.") from error


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _watched(self._pieces)
