"""The gateway: sessions with identify, sequence numbers, resume and disconnects, over zlib-stream."""

import asyncio
import json
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from aiohttp import WSMsgType, web

from tests.standins.discord.world import DM, Json, World

GUILDS, GUILD_MESSAGES, GUILD_REACTIONS, DIRECT_MESSAGES = 1 << 0, 1 << 9, 1 << 10, 1 << 12
MESSAGE_CONTENT, PRIVILEGED = 1 << 15, {1 << 1: 1 << 14, 1 << 8: 1 << 12, 1 << 15: 1 << 18}
KEPT_EVENTS = 1000


class Wire:
    """One connection: a zlib stream that ends each message with a sync flush."""

    def __init__(self, socket: web.WebSocketResponse, *, is_compressed: bool) -> None:
        self.socket = socket
        self.is_dropped = False
        self._packer = zlib.compressobj() if is_compressed else None

    async def send(self, payload: Json) -> None:
        text = json.dumps(payload)
        if self.socket.closed:
            return
        if self._packer is None:
            await self.socket.send_str(text)
            return
        await self.socket.send_bytes(self._packer.compress(text.encode()) + self._packer.flush(zlib.Z_SYNC_FLUSH))


@dataclass
class Session:
    """The state that outlives a connection: the shard, its numbered events, and whether it is connected."""

    id: str
    intents: int
    shard: tuple[int, int]
    world: World
    seq: int = 0
    events: list[Json] = field(default_factory=list)
    wire: Wire | None = None

    def sees(self, guild_id: str | None) -> bool:
        if guild_id is not None and guild_id in self.world.guilds and not self.world.sees({"guild_id": guild_id}):
            return False
        return self.shard[0] == (0 if guild_id is None else (int(guild_id) >> 22) % self.shard[1])

    async def dispatch(self, name: str, payload: Any) -> None:
        self.seq += 1
        event = {"op": 0, "t": name, "s": self.seq, "d": payload}
        self.events = [*self.events[-KEPT_EVENTS:], event]
        if self.wire is not None:
            await self.wire.send(event)


class Gateway:
    """All sessions. `identifies` and `resumes` are counters; with `acks` False heartbeats get no answer.

    A session's servers are unavailable until `guilds_come` is set.
    """

    def __init__(self, world: World, token: str) -> None:
        # The bots that may connect, each with the world as it sees it.
        self.worlds = {token: world}
        self.url = ""
        self.sessions: dict[str, Session] = {}
        self.identifies: list[Json] = []
        self.resumes = 0
        self.acks = True
        self.guilds_come = asyncio.Event()
        self.guilds_come.set()
        self.identify_seconds = 5.0
        self.max_concurrency = 1
        # When a session last began, by token and the remainder of the shard's number.
        self._began: dict[tuple[str, int], float] = {}
        # Identifies that came too soon.
        self.refusals = 0
        self.heartbeat_seconds = 41.25
        self.changed = asyncio.Condition()

    async def serve(self, request: web.BaseRequest) -> web.WebSocketResponse:
        """Hold one connection until either side ends it."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        wire = Wire(socket, is_compressed=request.query.get("compress") == "zlib-stream")
        await wire.send({"op": 10, "s": None, "t": None, "d": {"heartbeat_interval": self.heartbeat_seconds * 1000}})
        session: Session | None = None
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    session = await self._take(wire, session, json.loads(message.data))
        finally:
            if session is not None and session.wire is wire:
                session.wire = None
                if not wire.is_dropped and socket.close_code in (1000, 1001):
                    # Who closes with these codes ends the session.
                    self.sessions.pop(session.id, None)
                await self._tell()
        return socket

    async def _take(self, wire: Wire, session: Session | None, payload: Json) -> Session | None:
        code = payload.get("op")
        if code == 1:
            if self.acks:
                await wire.send({"op": 11, "s": None, "t": None, "d": None})
        elif code == 2 and session is not None:
            await wire.socket.close(code=4005)
        elif code == 2:
            session = await self._identify(wire, payload["d"])
        elif code == 6:
            session = await self._resume(wire, payload["d"])
        elif session is None:
            await wire.socket.close(code=4003)
        return session

    async def _identify(self, wire: Wire, payload: Json) -> Session | None:
        self.identifies.append(payload)
        world = self.worlds.get(payload["token"])
        if world is None:
            await wire.socket.close(code=4004)
            return None
        for intent, flags in PRIVILEGED.items():
            if payload["intents"] & intent and not world.application_flags & (flags | flags << 1):
                await wire.socket.close(code=4014)
                return None
        shard = tuple(payload.get("shard", (0, 1)))
        if not 0 <= shard[0] < shard[1]:
            await wire.socket.close(code=4010)
            return None
        if not self._may_begin(payload["token"], shard[0]):
            self.refusals += 1
            await wire.send({"op": 9, "s": None, "t": None, "d": False})
            return None
        session = Session(uuid4().hex, payload["intents"], (shard[0], shard[1]), world, wire=wire)
        self.sessions[session.id] = session
        await self._greet(session)
        await self._tell()
        return session

    def _may_begin(self, token: str, shard_id: int) -> bool:
        """Return whether no other session of the bucket has just begun: one in five seconds."""
        bucket, at = (token, shard_id % self.max_concurrency), time.monotonic()
        if at - self._began.get(bucket, float("-inf")) < self.identify_seconds:
            return False
        self._began[bucket] = at
        return True

    async def _greet(self, session: Session) -> None:
        world = session.world
        mine = [guild_id for guild_id in world.guilds if session.sees(guild_id)]
        ready = {
            "v": 10,
            "user": world.bot,
            "guilds": [{"id": guild_id, "unavailable": True} for guild_id in mine],
            "session_id": session.id,
            "resume_gateway_url": self.url,
            "shard": list(session.shard),
            "application": {"id": world.bot["id"], "flags": world.application_flags},
            "private_channels": [],
        }
        await session.dispatch("READY", ready)
        if not self.guilds_come.is_set():
            await self._tell()
            await self.guilds_come.wait()
        for guild_id in mine:
            await session.dispatch("GUILD_CREATE", world.guild_payload(guild_id))

    async def _resume(self, wire: Wire, payload: Json) -> Session | None:
        session = self.sessions.get(payload.get("session_id", ""))
        if session is not None and session.world is not self.worlds.get(payload.get("token", "")):
            session = None
        seq = payload.get("seq")
        # Of the events after the last one that was seen, none may be gone.
        if session is None or seq is None or not session.events[0]["s"] - 1 <= seq <= session.seq:
            await wire.send({"op": 9, "s": None, "t": None, "d": False})
            return None
        self.resumes += 1
        session.wire = wire
        for event in [event for event in session.events if event["s"] > seq]:
            await wire.send(event)
        await session.dispatch("RESUMED", {"_trace": []})
        await self._tell()
        return session

    async def dispatch(self, name: str, payload: Json, guild_id: str | None, intent: int = 0) -> None:
        """Dispatch to the sessions that may see it, without text for those that may not read it."""
        for session in list(self.sessions.values()):
            if not session.sees(guild_id) or (intent and not session.intents & intent):
                continue
            if not concerns(session.world, payload):
                continue
            view = payload
            if name.startswith("MESSAGE_") and not session.intents & MESSAGE_CONTENT:
                view = without_text(session.world, payload, guild_id)
            await session.dispatch(name, view)

    def message_intent(self, channel: Json) -> int:
        return DIRECT_MESSAGES if channel["type"] == DM else GUILD_MESSAGES

    def connected(self, shards: Iterable[int] | None = None) -> list[Session]:
        ids = None if shards is None else set(shards)
        return [
            session
            for session in self.sessions.values()
            if session.wire is not None and (ids is None or session.shard[0] in ids)
        ]

    async def until(self, count: int = 1) -> None:
        """Wait until this many sessions are connected."""
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: len(self.connected()) >= count)

    async def until_gone(self) -> None:
        """Wait until nobody is connected."""
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: not self.connected())

    async def send_all(self, payload: Json) -> None:
        """Send a raw message to everybody: op 7 asks to reconnect, op 9 ends the session."""
        for session in self.connected():
            if payload.get("op") == 9 and payload.get("d") is False:
                del self.sessions[session.id]
            if session.wire is not None:
                await session.wire.send({"s": None, "t": None} | payload)

    async def drop_all(self, code: int = 4000, world: World | None = None) -> None:
        """Close every connection with this code, or those of one bot."""
        for session in self.connected():
            if session.wire is not None and world in (None, session.world):
                session.wire.is_dropped = True
                await session.wire.socket.close(code=code)

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()


def concerns(world: World, payload: Json) -> bool:
    """Tell whether an event is this bot's: an interaction is one application's, a message is where the bot is."""
    if "application_id" in payload:
        return bool(payload["application_id"] == world.bot["id"])
    channel = world.channels.get(payload.get("channel_id", ""))
    return channel is None or world.may(channel, "view_channel")


def without_text(world: World, payload: Json, guild_id: str | None) -> Json:
    """Return a message as a bot is shown it that may not read the text of those that don't mention it."""
    mentioned = any(mention["id"] == world.bot["id"] for mention in payload.get("mentions", ()))
    if guild_id is None or mentioned or "content" not in payload:
        return payload
    return payload | {"content": "", "attachments": [], "embeds": [], "components": []}
