"""A network between a program and its database that falls silent: nothing arrives, and nothing is closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field

from shared.db.database import Address


@dataclass
class Network:
    """Carries bytes while it is `open`; what is sent meanwhile arrives when it heals."""

    address: Address
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def fall_silent(self) -> None:
        """Carry nothing any more, in no direction, and on no connection."""
        self.open.clear()

    def heal(self) -> None:
        """Carry on."""
        self.open.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until a side closes it."""
        with closing(writer):
            await self.open.wait()
            theirs_in, theirs_out = await asyncio.open_connection(self.address.url.host, self.address.url.port)
            with closing(theirs_out):
                await asyncio.gather(self._pump(reader, theirs_out), self._pump(theirs_in, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(65536):
                await self.open.wait()
                writer.write(chunk)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def networked(address: Address) -> AsyncIterator[tuple[Network, Address]]:
    """Open a network before this database for the block, and yield it with the address through it."""
    network = Network(address)
    network.heal()
    running: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.add(asyncio.create_task(network.carry(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield network, Address(address.url.set(host="127.0.0.1", port=port), is_embedded=False)
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        # The transports close in the next round of the loop.
        await asyncio.sleep(0)
