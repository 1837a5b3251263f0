"""The two MCP transports, a subprocess with pipes and HTTP, each with limits on what the server may send.

A subprocess receives only the environment of its row, none of ours; at the end its whole process group is killed.
"""

import asyncio
import os
import re
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

from shared.errors import Unavailable
from shared.processes.ending import write_to

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 256 * 1024 * 1024
MAX_MESSAGES_PER_SECOND = 5000
MAX_BYTES_PER_SECOND = 512 * 1024 * 1024
KEPT_OF_TOO_LONG = 100_000
TOO_LONG = -32099
CHUNK = 256 * 1024
END_SECONDS = 1.0
KEPT_COMPLAINTS = 500
REQUEST_ID = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*[,}]')

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class Lines:
    """Splits a byte stream into lines; of a line longer than `MAX_MESSAGE_BYTES` only the beginning is kept."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each complete line with its original length in bytes; raises `Unavailable` above `MAX_LINE_BYTES`."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield bytes(self._kept), self._size
            self._kept.clear()
            self._size = 0
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._kept += part[: max(0, MAX_MESSAGE_BYTES - len(self._kept))]
        self._size += len(part)
        if self._size > MAX_LINE_BYTES:
            raise Unavailable(f"It wrote a line of more than {MAX_LINE_BYTES:,} bytes.")


def to_message(line: bytes, size: int) -> SessionMessage | None:
    """Parse a line; None if it is not a JSON-RPC message.

    A message that is too long becomes an error response with its beginning; raises `Unavailable` if its id is unknown.
    """
    if size > len(line):
        match = REQUEST_ID.search(line[:KEPT_OF_TOO_LONG])
        if match is None:
            raise Unavailable(f"It wrote a message of {size:,} bytes.")
        excerpt = {"total_bytes": size, "beginning": line[:KEPT_OF_TOO_LONG].decode(errors="replace")}
        error = ErrorData(code=TOO_LONG, message=f"The answer has {size:,} bytes.", data=excerpt)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(match[1]), error=error))
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        # Some programs print other lines, such as a greeting: they are ignored.
        return None


class _FloodLimit:
    # Limits messages and bytes per second; raises `Unavailable` when a limit is exceeded.
    def __init__(self) -> None:
        self._second, self._messages, self._bytes = 0, 0, 0

    def count(self, *, messages: int = 0, size: int = 0) -> None:
        second = int(asyncio.get_running_loop().time())
        if second != self._second:
            self._second, self._messages, self._bytes = second, 0, 0
        self._messages += messages
        self._bytes += size
        if self._messages > MAX_MESSAGES_PER_SECOND or self._bytes > MAX_BYTES_PER_SECOND:
            raise Unavailable("It floods its output.")


@asynccontextmanager
async def pipes_to(
    command: str, args: Sequence[str], env: Mapping[str, str], on_end: Callable[[str], None]
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """Start a program and yield the streams of messages from and to it; `on_end` gets the reason if it ends by itself.

    Raises `Unavailable` if the program can't be started.
    """
    program = shutil.which(command)
    if program is None:
        raise Unavailable(f"There is no program {command!r} here; write its whole path.")
    try:
        process = await asyncio.create_subprocess_exec(
            program, *args, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=dict(env), cwd="/", start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise Unavailable(f"{command!r} can't be started ({error}).") from error
    # No await between here and the `try`: a cancellation would leave the process running.
    inlet, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outlet = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with inlet, incoming, outgoing, outlet, anyio.create_task_group() as group:
            group.start_soon(_read, process, inlet, on_end)
            group.start_soon(_write, process, outlet)
            try:
                yield incoming, outgoing
            finally:
                incoming.close()
                await _end(process)
            group.cancel_scope.cancel()
    finally:
        _signal(process, signal.SIGKILL)
        # asyncio waits for the pipes' end of file, which a descendant outside of the process group can delay forever.
        process._transport.close()  # type: ignore[attr-defined]  # it has no public name


async def _read(process: Process, inlet: Incoming, on_end: Callable[[str], None]) -> None:
    complaints = bytearray()
    reason = "It ended."
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_keep_complaints, process, complaints)
            await _read_messages(process, inlet)
    except* Unavailable as errors:
        reason = str(errors.exceptions[0])
    except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
        # The session was closed first.
        pass
    on_end(f"{reason} {complaints.decode(errors='replace')}".strip())


async def _read_messages(process: Process, inlet: Incoming) -> None:
    lines, flood_limit = Lines(), _FloodLimit()
    assert process.stdout is not None  # noqa: S101 - it was started with pipes
    # Closed at the end of stdout, even if stderr is still open, so that the session notices the end at once.
    async with inlet:
        while chunk := await process.stdout.read(CHUNK):
            flood_limit.count(size=len(chunk))
            for message in _messages(lines.feed(chunk), flood_limit):
                await inlet.send(message)
            # Yield to the event loop, so that endless output does not block other tasks.
            await asyncio.sleep(0)


def _messages(lines: Iterator[tuple[bytes, int]], flood_limit: _FloodLimit) -> Iterator[SessionMessage]:
    for line, size in lines:
        flood_limit.count(messages=1)
        if message := to_message(line, size):
            yield message


async def _keep_complaints(process: Process, complaints: bytearray) -> None:
    assert process.stderr is not None  # noqa: S101 - it was started with pipes
    flood_limit = _FloodLimit()
    while chunk := await process.stderr.read(CHUNK):
        flood_limit.count(messages=chunk.count(b"\n"), size=len(chunk))
        complaints += chunk
        del complaints[:-KEPT_COMPLAINTS]


async def _write(process: Process, outlet: Outgoing) -> None:
    with suppress(anyio.ClosedResourceError):
        async for message in outlet:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
            if not await write_to(process, line):
                return


async def _end(process: Process) -> None:
    """Close the program's stdin, then send SIGTERM and SIGKILL to its group, waiting `END_SECONDS` after each step.

    All of it happens also for a caller that is cancelled.
    """
    assert process.stdin is not None  # noqa: S101 - it was started with pipes
    with anyio.CancelScope(shield=True):
        process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with anyio.move_on_after(END_SECONDS):
                await process.wait()
            _signal(process, number)
        with anyio.move_on_after(END_SECONDS):
            await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    # The program leads its own process group, so the signal also reaches the processes that it started.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class _Capped(httpx2.AsyncBaseTransport):
    # Limits the size of a response body; for event streams the SDK limits the size of each event.
    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        stream = response.stream
        if "event-stream" in response.headers.get("content-type", "") or not isinstance(stream, httpx2.AsyncByteStream):
            return response
        if response.headers.get("content-encoding", "identity") != "identity":
            await stream.aclose()
            raise httpx2.DecodingError("It answered in an encoding that was not asked for.", request=request)
        response.stream = _CappedStream(stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CappedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remainder = MAX_MESSAGE_BYTES
        async for piece in self._inner:
            remainder -= len(piece)
            if remainder < 0:
                raise httpx2.StreamError(f"The answer has more than {MAX_MESSAGE_BYTES:,} bytes.")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def http_to(url: str, headers: Mapping[str, str]) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the streams to a server over streamable HTTP; its origin is trusted, other origins are not."""
    parameters = {**headers, "accept-encoding": "identity"}
    # Calls have their own deadline; this timeout limits requests that no call waits for.
    timeout = httpx2.Timeout(10, read=600)
    # `trust_env` would read proxies and credentials from the environment and from `.netrc`.
    async with (
        httpx2.AsyncClient(headers=parameters, transport=_Capped(), timeout=timeout, trust_env=False) as client,
        streamable_http_client(
            url, http_client=client, terminate_on_close=False, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams
