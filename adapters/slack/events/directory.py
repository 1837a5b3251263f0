"""A cache of the names of people and channels: events contain only ids.

Storing an event waits at most WAIT_SECONDS for a name; a name that arrives later is used for the next event.
"""

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from cachetools import FIFOCache
from msgspec import Struct

from adapters.slack.transport.api import Json, Web
from shared.text import clean

if TYPE_CHECKING:
    from adapters.base import Running
    from shared.clock import Clock

KEPT_SECONDS, KEPT_UNKNOWN_SECONDS = 1800.0, 60.0
WAIT_SECONDS = 0.8
WITHHELD = "check_file_info"
MOST_KEPT, MOST_AT_ONCE = 20_000, 20


class Channel(Struct, frozen=True):
    """A channel's name and topic."""

    name: str | None = None
    topic: str | None = None


class Directory:
    """Looks up names and caches them for KEPT_SECONDS, and completes events that lack details of their files."""

    def __init__(self, clock: "Clock", running: "Running") -> None:
        self._clock, self._running = clock, running
        self._entries: FIFOCache[tuple[str, str], tuple[float, Json | None]] = FIFOCache(MOST_KEPT)
        self._pending: dict[tuple[str, str], asyncio.Event] = {}

    async def list_names(self, web: Web, people: Collection[str]) -> dict[str, str]:
        """Return names by user id, as far as they are known within WAIT_SECONDS."""
        names: dict[str, str] = {}
        for user_id, user in (await self._find(web, people)).items():
            if user is not None:
                profile = user.get("profile") or {}
                name = profile.get("display_name") or profile.get("real_name") or user.get("name") or user.get("id")
                names[user_id] = clean(str(name))
        return names

    async def find_channel(self, web: Web, channel: str) -> Channel:
        """Return the channel's name and topic, as far as they are known within WAIT_SECONDS."""
        conversation = (await self._find(web, [channel])).get(channel) or {}
        return Channel(conversation.get("name"), (conversation.get("topic") or {}).get("value") or None)

    async def with_files(self, web: Web, event: Json) -> Json:
        """Return the event with complete files: of a file from another workspace it contains only the id."""
        files = list(event.get("files") or ())
        withheld = [file for file in files if file.get("file_access") == WITHHELD]
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                for stub in withheld:
                    response = await web.find("files.info", file=str(stub.get("id")))
                    files[files.index(stub)] = (response or {}).get("file") or stub
        return {**event, "files": files} if withheld else event

    async def _find(self, web: Web, ids: Iterable[str]) -> dict[str, Json | None]:
        keys = {id_: (web.token.team_id, id_) for id_ in ids}
        events: list[asyncio.Event] = []
        for key in keys.values():
            entry = self._entries.get(key)
            if key in self._pending:
                events.append(self._pending[key])
            elif (entry is None or entry[0] <= self._clock.monotonic()) and len(self._pending) < MOST_AT_ONCE:
                event = self._pending[key] = asyncio.Event()
                self._running.start(self._fetch(web, key, event), "slack name")
                # An expired entry is used until the new one arrives.
                if entry is None:
                    events.append(event)
        if events:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await asyncio.gather(*(event.wait() for event in events))
        return {id_: self._entries[key][1] for id_, key in keys.items() if key in self._entries}

    async def _fetch(self, web: Web, key: tuple[str, str], event: asyncio.Event) -> None:
        try:
            if key[1].startswith(("U", "W")):
                record = (await web.find("users.info", user=key[1]) or {}).get("user")
            else:
                record = (await web.find("conversations.info", channel=key[1]) or {}).get("channel")
            lasts = KEPT_UNKNOWN_SECONDS if record is None else KEPT_SECONDS
            before = self._entries.get(key)
            self._entries[key] = (self._clock.monotonic() + lasts, record or (before[1] if before else None))
        finally:
            self._pending.pop(key, None)
            event.set()
