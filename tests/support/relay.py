"""A TCP port that carries bytes to another server and back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def relay(connect: Callable[[], Awaitable[Stream]], open_: asyncio.Event | None = None) -> AsyncIterator[int]:
    """Carry all connections for the block, and yield the port; while `open_` is not set, nothing is carried.

    At the end all connections are closed, those too that the other server refused or that nobody closed.
    """
    if open_ is None:
        open_ = asyncio.Event()
        open_.set()
    tasks: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(65536):
                await open_.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await open_.wait()
        with suppress(OSError):
            server_reader, server_writer = await connect()
            writers.add(server_writer)
            await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        tasks.add(asyncio.create_task(carry(reader, writer)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await abort(writers)


async def abort(writers: Iterable[asyncio.StreamWriter]) -> None:
    """Close these connections at once, whatever was still to be sent; returns when they are closed."""
    for writer in writers:
        writer.transport.abort()
    for writer in writers:
        with suppress(ConnectionError):
            await writer.wait_closed()
