"""The Client-Server API with the token of one account."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from adapters.api_client import CALL_SECONDS, ApiClient, File, Json
from shared.errors import Unavailable, Undeliverable

CLIENT, MEDIA = "/_matrix/client/v3", "/_matrix/media/v3"
NOT_ACCEPTED = "The homeserver refuses MATRIX_TOKEN; make another one with `parley matrix login`."
Check = Callable[[], Awaitable[None]]


class Refused(Undeliverable):
    """A request that the homeserver refuses, with the code of its error."""

    def __init__(self, errcode: str, text: str) -> None:
        self.errcode = errcode
        super().__init__(NOT_ACCEPTED if errcode == "M_UNKNOWN_TOKEN" else f"Matrix refuses: {errcode}: {text}")


class Client(ApiClient):
    """One account at its homeserver."""

    title = "The homeserver"

    def __init__(self, homeserver: str, token: str = "") -> None:
        super().__init__({"Authorization": f"Bearer {token}"} if token else {})
        self.homeserver, self.token = homeserver.rstrip("/"), token
        self._me = ""

    def to_refusal(self, answer: Json) -> Undeliverable:
        """Return the error with its code."""
        return Refused(str(answer.get("errcode")), str(answer.get("error")))

    def find_pause(self, answer: Json) -> float:
        """Return how many seconds the homeserver asks to wait."""
        pause = answer.get("retry_after_ms")
        return pause / 1000 if isinstance(pause, int) and pause > 0 else 1.0

    async def find_me(self) -> str:
        """Return the account of the token."""
        self._me = self._me or str((await self.call("GET", ("account", "whoami")))["user_id"])
        return self._me

    async def call(
        self,
        method: str,
        path: Sequence[str],
        body: Any = None,
        *,
        check: Check | None = None,
        seconds: float = CALL_SECONDS,
        **query: Any,
    ) -> Json:
        """Return the answer to one request; `check` is awaited just before each attempt."""
        base = MEDIA if isinstance(body, File) else CLIENT
        url = self.homeserver + "/".join((base, *(quote(name, safe="") for name in path)))
        return await self.request(method, url, body, check=check, seconds=seconds, query=query)

    async def send(
        self, room: str, content: Json, key: str, *, kind: str = "m.room.message", check: Check | None = None
    ) -> str:
        """Send an event and return its id; of one `key` the homeserver makes one event."""
        return str((await self.call("PUT", ("rooms", room, "send", kind, key), content, check=check))["event_id"])

    async def upload(self, file: File, *, filename: str = "", check: Check | None = None) -> str:
        """Upload a file and return its address."""
        return str((await self.call("POST", ("upload",), file, check=check, filename=filename))["content_uri"])

    async def find_event(self, room: str, event_id: str) -> Json | None:
        """Return an event of the room; None if it is not there, or not to be had now."""
        with suppress(Refused, Unavailable):
            return await self.call("GET", ("rooms", room, "event", event_id))
        return None

    async def note_direct(self, account: str, room: str) -> None:
        """Note beside the account that a room is the direct one with a person."""
        path = ("user", await self.find_me(), "account_data", "m.direct")
        # The latest alone: whoever invites a thousand times fills nothing.
        await self.call("PUT", path, await self.list_directs() | {account: [room]})

    async def list_directs(self) -> Json:
        """Return the direct rooms by the person, as they are noted beside the account."""
        with suppress(Refused):
            return await self.call("GET", ("user", await self.find_me(), "account_data", "m.direct"))
        return {}
