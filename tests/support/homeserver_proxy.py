"""A proxy between the agent and its homeserver that keeps a journal and can be told to misbehave."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from aiohttp import web

from tests.standins.stand_in import ChatStandIn

Json = dict[str, Any]
# The connection is cut instead of an answer, or nothing comes until the other side gives up.
CUT, SILENCE = 0, -1
SYNC = "/_matrix/client/v3/sync"
SENDING, HISTORY = "/send/m.room.message/", "/messages"
TRANSACTION = re.compile(r"/(?:send|redact)/[^/?]+/[^/?]+")


@dataclass(frozen=True)
class Fault:
    """What happens to the next requests of a method whose path contains `path`; `after`: they take effect.

    `is_page`: a proxy answers, with a page for people.
    """

    method: str
    path: str
    status: int
    times: int = 1
    after: bool = False
    retry_after_ms: int = 1000
    is_page: bool = False


@dataclass(frozen=True)
class Call:
    """One request of the agent and the status that it was answered with."""

    method: str
    path: str
    status: int
    errcode: str | None = None


class HomeserverProxy(ChatStandIn):
    """What the agent takes for its homeserver, open as long as its `async with` block."""

    def __init__(self, address: str) -> None:
        super().__init__(web.Server(self._serve, access_log=None, handler_cancellation=True), 0)
        self.address = address
        self.faults: list[Fault] = []
        self.journal: list[Call] = []
        # While it is away, nobody answers.
        self.is_away = False
        # Whether what people write is kept from the agent, until it asks for its rooms anew.
        self.withholds = False
        self.listeners = 0
        # By the mark after them, the events that an adapter was told of.
        self._told: dict[str, set[str]] = {}
        self._repeats: list[Json] = []
        self._invitations: dict[str, Json] = {}
        self._rooms: Json = {}
        # What was said in a room up to now, while nobody listened: of it, no timeline has more than the end.
        self.missed: list[Json] = []
        # What holds in the room after that, and the pages that the last ones name as the next.
        self.settled: list[Json] = []
        self.after_last: Iterator[str] = iter(())
        self._transactions = ""
        self._connections: set[asyncio.Transport] = set()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def repeat(self, *events: Json) -> None:
        """Deliver events to the agent again, or such as no homeserver lets pass."""
        self._repeats += events
        await self.tell()
        await self.until(lambda: not self._repeats)

    async def invite(self, events: list[Json], *rooms: str) -> None:
        """Deliver invitations with these events, as a server that lies may."""
        self._invitations |= {room: {"invite_state": {"events": events}} for room in rooms}
        await self.tell()
        await self.until(lambda: not self._invitations)

    async def tell_of(self, rooms: Json) -> None:
        """Tell the agent of rooms in a way that no homeserver should."""
        self._rooms = rooms
        await self.tell()
        await self.until(lambda: not self._rooms)

    @property
    def _is_to_tell(self) -> bool:
        return bool(self._repeats or self._invitations or self._rooms)

    def list_told(self, mark: str | None) -> set[str]:
        """Return the events that an adapter was told of up to this mark."""
        marks = list(self._told)
        before = marks[: marks.index(mark) + 1] if mark in marks else []
        return {event for mark in before for event in self._told[mark]}

    async def until_silent(self, count: int = 1) -> None:
        """Return once so many requests wait for an answer that does not come, or have waited."""
        await self.until(lambda: sum(call.status == SILENCE for call in self.journal) >= count)

    def forget_transactions(self) -> None:
        """Let transaction ids that come again be new ones."""
        self._transactions += "x"

    def refuse(self, method: str, path: str) -> None:
        """Refuse what nobody here may do."""
        self.faults.append(Fault(method, path, 403, times=1000))

    def go_away(self) -> None:
        """Break every connection off and answer nothing, as long as `is_away` is not set back."""
        self.is_away = True
        self.cut_all()

    def cut_all(self) -> None:
        """Break every connection off."""
        for connection in self._connections:
            connection.abort()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        self._connections.add(request.transport)
        try:
            await asyncio.sleep(self.latency)
            fault = self._take_fault(request.method, request.raw_path)
            if fault is not None and not fault.after:
                status, body = await self._fail(request, fault)
            elif self.missed and request.path.endswith(HISTORY):
                status, body = 200, self._read_missed(request)
            elif request.path == SYNC:
                status, body = await self._sync(request)
            else:
                status, body = await self._pass_on(request)
                if fault is not None:
                    status, body = await self._fail(request, fault)
            errcode = json.loads(body).get("errcode") if status >= 400 and body.startswith(b"{") else None
            self.journal.append(Call(request.method, request.path, status, errcode))
            return web.Response(body=body, status=status or 502, headers={"Content-Type": "application/json"})
        finally:
            self._connections.discard(request.transport)
            await self.tell()

    def _read_missed(self, request: web.BaseRequest) -> bytes:
        """Return a page of what was missed, forwards or backwards, as Synapse does."""
        events = self.missed if request.query["dir"] == "f" else self.missed[::-1]
        start = request.query["from"].removeprefix("missed-")
        first = int(start) if start.isdigit() else 0
        last = min(first + int(request.query["limit"]), len(events))
        next_page = f"missed-{last}" if last < len(events) else next(self.after_last, None)
        end = {"end": next_page} if next_page else {}
        kinds = json.loads(request.query.get("filter", "{}")).get("types")
        chunk = [event for event in events[first:last] if kinds is None or event["type"] in kinds]
        return json.dumps({"chunk": chunk} | end).encode()

    def _take_fault(self, method: str, path: str) -> Fault | None:
        if self.is_away:
            return Fault(method, path, CUT)
        for index, fault in enumerate(self.faults):
            if fault.method == method and fault.path in path:
                self.faults[index : index + 1] = [replace(fault, times=fault.times - 1)] if fault.times > 1 else []
                return fault
        return None

    async def _fail(self, request: web.BaseRequest, fault: Fault) -> tuple[int, bytes]:
        if fault.status == SILENCE:
            self.journal.append(Call(request.method, request.path, SILENCE))
            await self.tell()
            await asyncio.Event().wait()
        if fault.status == CUT and request.transport is not None:
            request.transport.abort()
        if fault.status == 429:
            answer = {"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": fault.retry_after_ms}
            return 429, json.dumps(answer).encode()
        if fault.is_page:
            return fault.status, b"<h1>Out of order</h1>"
        return fault.status, b'{"errcode": "M_UNKNOWN", "error": "out of order"}'

    async def _pass_on(self, request: web.BaseRequest) -> tuple[int, bytes]:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        path = TRANSACTION.sub(lambda match: match[0] + self._transactions, request.raw_path)
        names = ("Authorization", "Content-Type")
        async with self._session.request(
            request.method,
            # As it came: what is encoded stays so.
            type(request.rel_url)(self.address + path, encoded=True),
            data=await request.read() or None,
            headers={name: request.headers[name] for name in names if name in request.headers},
        ) as response:
            return response.status, await response.read()

    async def _sync(self, request: web.BaseRequest) -> tuple[int, bytes]:
        since = request.query.get("since")
        if since is None:
            self.withholds = False
            return await self._pass_on(request)
        self.listeners += 1
        await self.tell()
        passing = asyncio.create_task(self._pass_on(request))
        repeating = asyncio.create_task(self.until(lambda: self._is_to_tell, 600))
        try:
            await asyncio.wait({passing, repeating}, return_when=asyncio.FIRST_COMPLETED)
            if self._is_to_tell:
                return 200, self._say_again(since)
            status, body = passing.result()
            if self.withholds:
                # Until the adapter hangs up.
                await asyncio.Event().wait()
            self._note(json.loads(body))
            return status, body
        finally:
            self.listeners -= 1
            passing.cancel()
            repeating.cancel()
            await asyncio.gather(passing, repeating, return_exceptions=True)

    def _note(self, batch: Json) -> None:
        rooms = batch.get("rooms", {}).get("join", {}).values()
        events = {event["event_id"] for room in rooms for event in room["timeline"]["events"]}
        self._told.setdefault(batch.get("next_batch", ""), set()).update(events)

    def _say_again(self, since: str) -> bytes:
        rooms: Json = defaultdict(lambda: {"timeline": {"events": []}})
        for event in self._repeats:
            rooms[event["room_id"]]["timeline"]["events"].append(event)
            if self.missed:
                rooms[event["room_id"]]["timeline"] |= {"limited": True, "prev_batch": "missed-0"}
                rooms[event["room_id"]]["state"] = {"events": self.settled}
        batch = {"next_batch": since, "rooms": {"join": rooms | self._rooms, "invite": self._invitations}}
        self._repeats.clear()
        self._invitations, self._rooms = {}, {}
        return json.dumps(batch).encode()
