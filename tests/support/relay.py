"""A TCP port that carries bytes to another server and back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Relay:
    """Carries connections while it is `open`; at the end all are closed, those too that the other server refused."""

    connect: Callable[[], Awaitable[Stream]]
    open: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin to carry a connection."""
        self.writers.add(writer)
        self.tasks.add(asyncio.create_task(self._carry(reader, writer)))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.open.wait()
        with suppress(OSError):
            server_reader, server_writer = await self.connect()
            self.writers.add(server_writer)
            await asyncio.gather(self._pump(reader, server_writer), self._pump(server_reader, writer))
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(65536):
                await self.open.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def relay(connect: Callable[[], Awaitable[Stream]], open_: asyncio.Event | None = None) -> AsyncIterator[int]:
    """Carry all connections for the block, and yield the port; with an event, only while that is set."""
    relay = Relay(connect, open_ or asyncio.Event())
    if open_ is None:
        relay.open.set()
    listener = await asyncio.start_server(relay.accept, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in relay.tasks:
            task.cancel()
        await asyncio.gather(*relay.tasks, return_exceptions=True)
        await abort(relay.writers)


async def abort(writers: Iterable[asyncio.StreamWriter]) -> None:
    """Close these connections at once, whatever was still to be sent; returns when they are closed."""
    for writer in writers:
        writer.transport.abort()
    for writer in writers:
        with suppress(ConnectionError):
            await writer.wait_closed()
