"""Socket Mode: connections with a ticket, hello, envelopes and disconnects."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from aiohttp import WSMsgType, web

from tests.standins.slack.journal import Envelope
from tests.standins.slack.world import Json

if TYPE_CHECKING:
    from tests.standins.slack.server import SlackStandIn

TICKET_SECONDS = 30.0


@dataclass(eq=False)
class Connection:
    """One WebSocket of the app. `is_leaving`: it was asked to reconnect, and gets no more envelopes."""

    socket: web.WebSocketResponse
    transport: asyncio.Transport | None = None
    id: str = field(default_factory=lambda: uuid4().hex[:8])
    is_leaving: bool = False

    async def send(self, payload: Json) -> None:
        if not self.socket.closed:
            await self.socket.send_str(json.dumps(payload))


class SocketMode:
    """All connections. `lose_acks` acknowledgements are ignored; `opened` counts the connections."""

    def __init__(self, standin: "SlackStandIn") -> None:
        self.standin = standin
        self.connections: list[Connection] = []
        self.most = 10
        self.opened = 0
        self.lose_acks = 0
        self.is_enabled = True
        self._tickets: dict[str, float] = {}
        self._waiting: dict[str, tuple[Envelope, asyncio.Future[Any]]] = {}
        self._turn = 0

    def new_url(self) -> str:
        """Return a URL for one connection, valid for a short time."""
        ticket = uuid4().hex
        self._tickets[ticket] = time.monotonic()
        address = self.standin.base.replace("http://", "ws://")
        return f"{address}/link/?ticket={ticket}&app_id={self.standin.world.app_id}"

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Hold one connection until either side ends it."""
        made_at = self._tickets.pop(request.query.get("ticket", ""), None)
        if made_at is None or time.monotonic() - made_at > TICKET_SECONDS:
            return web.Response(status=401)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        connection = Connection(socket, request.transport)
        if len(self._here()) >= self.most:
            await connection.send(self._disconnect("too_many_websockets"))
            await socket.close()
            return socket
        self.connections.append(connection)
        self.opened += 1
        await connection.send(self._hello())
        await self.standin.tell()
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._take(message.data)
        finally:
            self.connections.remove(connection)
            await self.standin.tell()
        return socket

    def _hello(self) -> Json:
        result = {"num_connections": len(self.connections), "connection_info": {"app_id": self.standin.world.app_id}}
        return {"type": "hello", **result, "debug_info": {"host": "stand-in", "approximate_connection_time": 18060}}

    def _disconnect(self, reason: str) -> Json:
        return {"type": "disconnect", "reason": reason, "debug_info": {"host": "stand-in"}}

    def _take(self, text: str) -> None:
        try:
            frame = json.loads(text)
        except json.JSONDecodeError:
            return
        if self.lose_acks > 0:
            self.lose_acks -= 1
            return
        envelope, future = self._waiting.pop(frame.get("envelope_id", ""), (None, None))
        if envelope is None or future is None:
            return
        envelope.acked_at, envelope.response = time.monotonic(), frame.get("payload")
        if not future.done():
            future.set_result(frame.get("payload"))

    async def send(self, envelope: Envelope, *, accepts_response: bool, seconds: float) -> bool:
        """Send an envelope through one connection; return whether it was acknowledged in time."""
        here = self._here()
        if not here:
            envelope.by = "nobody"
            return False
        self._turn += 1
        connection = here[self._turn % len(here)]
        envelope.by = f"socket {connection.id}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[envelope.id] = (envelope, future)
        payload: Json = {
            "envelope_id": envelope.id,
            "type": envelope.kind,
            "payload": envelope.payload,
            "accepts_response_payload": accepts_response,
        }
        if envelope.kind == "events_api":
            payload |= {"retry_attempt": envelope.attempt, "retry_reason": envelope.reason}
        envelope.at = time.monotonic()
        await connection.send(payload)
        futures, _ = await asyncio.wait((future,), timeout=seconds)
        return bool(futures)

    def _here(self) -> list[Connection]:
        return [
            connection for connection in self.connections if not connection.is_leaving and not connection.socket.closed
        ]

    async def until(self, count: int = 1) -> None:
        """Wait until this many connections are open."""
        await self.standin.until(lambda: len(self._here()) >= count)

    async def until_gone(self) -> None:
        """Wait until nobody is connected."""
        await self.standin.until(lambda: not self._here())

    async def ask_to_reconnect(self, reason: str = "refresh_requested", *, closes: bool = False) -> None:
        """Send a disconnect envelope to everybody: warning, refresh_requested or link_disabled."""
        self.is_enabled = self.is_enabled and reason != "link_disabled"
        for connection in self._here():
            connection.is_leaving = reason != "warning"
            await connection.send(self._disconnect(reason))
            if closes or reason == "link_disabled":
                await connection.socket.close()

    async def drop_all(self) -> None:
        """Close every connection without a disconnect envelope."""
        for connection in list(self.connections):
            await connection.socket.close()

    def cut_all(self) -> None:
        """Abort every connection, as a network failure does."""
        for connection in list(self.connections):
            if connection.transport is not None:
                connection.transport.abort()
