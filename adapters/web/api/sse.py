"""Server-sent events of a turn, or of a command."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

from msgspec.structs import asdict
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from agent.commands import CommandReply
from agent.journal.steps import Event
from shared.errors import Unavailable
from shared.messages import to_fields

# Proxies and mobile networks close a connection that is silent for a minute.
KEEP_ALIVE_SECONDS = 15.0
KEEP_ALIVE = b": still here\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


def render(event: Event) -> bytes:
    """Return one event: its name, and its payload with turn id and position."""
    return frame(event.name, {**event.payload, "turn_id": event.turn_id, "seq": event.seq})


def frame(name: str | None, value: Any) -> bytes:
    """Return one frame; JSON has no line breaks outside strings, so one `data:` line is enough."""
    head = f"event: {name}\n" if name else ""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{head}data: {text}\n\n".encode(errors="replace")


async def frames(events: AsyncIterator[Event]) -> AsyncGenerator[bytes]:
    """Yield the events as frames; the last one is `turn_complete`, or `error` if the database connection is lost."""
    try:
        async for event in events:
            yield render(event)
    except Unavailable as error:
        yield frame("error", {"code": error.code, "message": str(error)})


OnLeft = Callable[[], Awaitable[None]]


class KeptAlive:
    """Yields the chunks, and a comment after each silence; `source` is closed with it.

    `aclose` stops reading at once and not at garbage collection: a reader counts as a waiting client.
    """

    def __init__(self, chunks: AsyncGenerator[bytes], source: AsyncGenerator[Event] | None) -> None:
        self._chunks = chunks
        self._source = source
        self._next: asyncio.Future[bytes | None] | None = None

    def __aiter__(self) -> "KeptAlive":
        """Return self."""
        return self

    async def wait_for_first(self) -> None:
        """Wait for the first chunk, as long as a connection may be silent; raises what the chunks raise until then."""
        self._next = asyncio.ensure_future(anext(self._chunks, None))
        tasks, _ = await asyncio.wait({self._next}, timeout=KEEP_ALIVE_SECONDS)
        for first in tasks:
            first.result()

    async def __anext__(self) -> bytes:
        """Return the next chunk or comment."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._chunks, None))
        tasks, _ = await asyncio.wait({self._next}, timeout=KEEP_ALIVE_SECONDS)
        if not tasks:
            return KEEP_ALIVE
        chunk, self._next = self._next.result(), None
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """Stop reading."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._chunks.aclose()
        if self._source is not None:
            await self._source.aclose()


class EventStream(StreamingResponse):
    """A streaming response. `on_disconnected` is called if the client disconnects before the last frame."""

    def __init__(self, reading: KeptAlive, on_disconnected: OnLeft | None) -> None:
        self._reading = reading
        super().__init__(self._reading, media_type="text/event-stream", headers=HEADERS)
        self._on_disconnected = on_disconnected
        self._is_sent = self._is_disconnected = False

    async def stream_response(self, send: Send) -> None:
        """Send the frames."""
        await super().stream_response(send)
        self._is_sent = True

    async def listen_for_disconnect(self, receive: Receive) -> None:
        """Return when the client has disconnected."""
        await super().listen_for_disconnect(receive)
        self._is_disconnected = not self._is_sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._reading.aclose()
        # A server that shuts down cancels its responses instead: then the turn continues.
        if self._is_disconnected and self._on_disconnected is not None:
            await self._on_disconnected()


def stream(
    chunks: AsyncGenerator[bytes], source: AsyncGenerator[Event] | None = None, on_disconnected: OnLeft | None = None
) -> EventStream:
    """Return the response that streams these frames; `source` is closed with them."""
    return EventStream(KeptAlive(chunks, source), on_disconnected)


def follow(events: AsyncGenerator[Event], on_disconnected: OnLeft | None = None) -> EventStream:
    """Return the response that streams these events."""
    return stream(frames(events), events, on_disconnected)


async def command_events(reply: CommandReply, credential: str | None = None) -> AsyncGenerator[Event]:
    """Yield a command's answer as the events of a turn; `commands` are those that its buttons give.

    `credential` is the name of one for which the page shows a form.
    """
    message: dict[str, Any] = {"content": reply.text, "files": [to_fields(file) for file in reply.files]}
    if reply.choices:
        message["commands"] = [asdict(choice) for choice in reply.choices]
    if credential is not None:
        message["credential"] = credential
    yield Event(0, 0, "message", payload=message)
    nothing = {"input_tokens": 0, "cached_tokens": 0, "output_tokens": 0, "cost": None}
    ended = {"iterations": 0, "usage": nothing, "finished": True, "error": None, "model": None}
    yield Event(0, 1, "turn_complete", payload=ended)
