"""Requests that never arrive whole: they are ended in time, and don't keep others out."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from adapters.cli.serving import allow_many_files
from adapters.web.app import Server, build_web, listen, to_config
from adapters.web.guard import BODY_BYTES, HEAD_SECONDS, BoundedProtocol, HalfOpen
from tests.adapters.web.conftest import TOKEN
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley

HEAD = (
    f"POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
).encode()
Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def open_door(
    parley: Parley, *, most: int = 100, head: float = HEAD_SECONDS, body: float = 20.0
) -> AsyncIterator[int]:
    """Serve with these limits; yield the port."""
    listening = listen(parley.app.settings)
    protocol = partial(BoundedProtocol, half_open=HalfOpen(most), head_seconds=head, body_seconds=body)
    server = Server(to_config(build_web(parley.app), http=protocol, lifespan="off"))
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await serving


async def call(port: int, *pieces: bytes) -> Line:
    """Open a connection and send these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
    await writer.drain()
    return reader, writer


async def ending(line: Line) -> bytes:
    """Wait until the server closes the connection, and return what it sent."""
    reader, writer = line
    async with asyncio.timeout(PATIENCE):
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@pytest.mark.parametrize("head", [b"", b"POST /v1/mess", HEAD, b"\r\n"])
async def test_a_request_whose_headers_do_not_arrive_is_ended(parley: Parley, head: bytes) -> None:
    async with open_door(parley, head=0.3) as port:
        assert b"408 Request Timeout" in await ending(await call(port, head))


async def test_a_request_whose_body_does_not_arrive_is_ended(parley: Parley) -> None:
    async with open_door(parley, body=0.3) as port:
        line = await call(port, HEAD + b"Content-Length: 100\r\n\r\n", b"{")

        assert b"408 Request Timeout" in await ending(line)


async def test_a_second_request_on_a_connection_has_its_time_too(parley: Parley) -> None:
    async with open_door(parley, head=0.5) as port:
        reader, writer = await call(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b'{"status":"ok"}')
        writer.write(b"GET /heal")

        assert b"408 Request Timeout" in await ending((reader, writer))


async def test_a_slow_body_that_goes_on_is_read_to_its_end(parley: Parley) -> None:
    async with open_door(parley, body=0.4) as port:
        size = 4 * BODY_BYTES
        reader, writer = await call(port, HEAD + b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(4):
            writer.write(b" " * BODY_BYTES)
            # Half of a period for each period's worth of bytes.
            await asyncio.sleep(0.2)

        assert b"400 Bad Request" in await reader.readline()
        writer.close()


async def test_of_too_many_half_open_requests_the_oldest_is_closed_and_others_are_served(parley: Parley) -> None:
    async with open_door(parley, most=3) as port:
        lines = [await call(port, b"GET /healthz HTT") for _ in range(3)]
        for _ in range(3):
            reader, writer = await call(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in await reader.readline()
            writer.close()

        assert await ending(lines[0]) == b""
        for _, writer in lines:
            writer.close()


def test_a_process_may_open_as_many_files_as_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        allow_many_files()

        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(before[1], 4096)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
