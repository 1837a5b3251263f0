"""Events of a turn as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from agent.journal import Event
from shared.errors import Unavailable

# Proxies and phones drop a connection that says nothing for a minute.
KEEP_ALIVE_SECONDS = 15.0
KEEP_ALIVE = b": still here\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


def render(event: Event) -> bytes:
    """Return one event: its name, and its payload with the turn and the position in it."""
    return frame(event.name, {**event.payload, "turn_id": event.turn_id, "seq": event.seq})


def frame(name: str | None, value: Any) -> bytes:
    """Return one frame; JSON has no line ends outside its strings, so one `data:` line holds it."""
    head = f"event: {name}\n" if name else ""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{head}data: {text}\n\n".encode(errors="replace")


async def frames(events: AsyncIterator[Event]) -> AsyncIterator[bytes]:
    """Yield the events as frames; the last one is `turn_complete`, or `error` when the database was lost."""
    try:
        async for event in events:
            yield render(event)
    except Unavailable as error:
        yield frame("error", {"code": error.code, "message": str(error)})


async def kept_alive(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks, and a comment whenever there was none for a while."""
    waiting = asyncio.ensure_future(anext(chunks, None))
    try:
        while True:
            done, _ = await asyncio.wait({waiting}, timeout=KEEP_ALIVE_SECONDS)
            if not done:
                yield KEEP_ALIVE
                continue
            if (chunk := waiting.result()) is None:
                return
            yield chunk
            waiting = asyncio.ensure_future(anext(chunks, None))
    finally:
        # The reader left: stop following; the turn itself goes on.
        waiting.cancel()


def stream(chunks: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the response that sends these frames as they come."""
    return StreamingResponse(kept_alive(chunks), media_type="text/event-stream", headers=HEADERS)
