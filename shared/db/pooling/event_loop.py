"""The event loop of processes that keep running; commands that end soon start without uvloop."""

import socket
from typing import Any

import uvloop

from shared.db.connections import SOCKET_OPTIONS


class Loop(uvloop.Loop):
    """An event loop on which connections to the database notice a silent network; asyncpg has no setting for that."""

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        """Open a connection; the system gives it up when its packets are not acknowledged."""
        transport: Any
        transport, protocol = await super().create_connection(*args, **kwargs)
        if type(protocol).__module__.startswith("asyncpg."):
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in SOCKET_OPTIONS.items():
                if hasattr(socket, name):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return transport, protocol
