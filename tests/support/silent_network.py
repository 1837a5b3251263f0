"""A network between a program and its database that falls silent: nothing arrives, and nothing is closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from shared.db.database import Address
from tests.support.relay import relay


@dataclass
class Network:
    """Carries bytes while it is `open`; what is sent meanwhile arrives when it heals."""

    open: asyncio.Event = field(default_factory=asyncio.Event)

    def fall_silent(self) -> None:
        """Carry nothing any more, in no direction, and on no connection."""
        self.open.clear()

    def heal(self) -> None:
        """Carry on."""
        self.open.set()


@asynccontextmanager
async def networked(address: Address) -> AsyncIterator[tuple[Network, Address]]:
    """Open a network before this database for the block, and yield it with the address through it."""
    network = Network()
    network.heal()
    async with relay(lambda: asyncio.open_connection(address.url.host, address.url.port), network.open) as port:
        yield network, Address(address.url.set(host="127.0.0.1", port=port), is_embedded=False)
