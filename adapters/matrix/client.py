"""A small client of the Client-Server API: requests with the account's token, as our errors."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import aiohttp

from shared.errors import Unavailable, Undeliverable

Json = dict[str, Any]
CLIENT, MEDIA = "/_matrix/client/v3", "/_matrix/media/v3"
CALL_SECONDS, SERVER_FAULT, TOO_MANY = 30.0, 500, 429
# How long one call waits because the homeserver asks for it, and after how many seconds it is repeated.
PATIENCE, PAUSES = 60.0, (0.5, 2.0)
NOT_ACCEPTED = "The homeserver refuses MATRIX_TOKEN; make another one with `parley matrix login`."


class Refused(Undeliverable):
    """A request that the homeserver refuses, with the code of its error."""

    def __init__(self, errcode: str, text: str) -> None:
        self.errcode = errcode
        super().__init__(NOT_ACCEPTED if errcode == "M_UNKNOWN_TOKEN" else f"Matrix refuses: {errcode}: {text}")


class Client:
    """One account at its homeserver."""

    def __init__(self, homeserver: str, token: str = "") -> None:
        self.homeserver, self.token = homeserver.rstrip("/"), token
        self._session: aiohttp.ClientSession | None = None
        self._me = ""

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

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
        check: Callable[[], Awaitable[None]] | None = None,
        seconds: float = CALL_SECONDS,
        **query: Any,
    ) -> Json:
        """Return the answer to one request; `check` is awaited just before each attempt.

        Only requests are made that may be made twice: each message has its transaction id.
        """
        is_file = isinstance(body, bytes)
        url = self.homeserver + "/".join((MEDIA if is_file else CLIENT, *(quote(name, safe="") for name in path)))
        content: Json = {"data" if is_file else "json": body, "params": {key: str(query[key]) for key in query}}
        waited, pauses = 0.0, list(PAUSES)
        while True:
            if check is not None:
                await check()
            status, answer = await self._request(method, url, content, seconds=seconds)
            if status < 400:
                return answer
            if status == TOO_MANY:
                pause = float(answer.get("retry_after_ms") or 1000) / 1000
                if waited + pause > PATIENCE:
                    raise Unavailable("The homeserver wants to be left alone.", retry_after=pause)
            elif status < SERVER_FAULT:
                raise Refused(str(answer.get("errcode")), str(answer.get("error")))
            elif not pauses:
                raise Unavailable(f"The homeserver does not answer: {answer.get('error')}")
            else:
                pause = pauses.pop(0)
            waited += pause
            await asyncio.sleep(pause)

    async def _request(self, method: str, url: str, content: Json, *, seconds: float) -> tuple[int, Json]:
        if self._session is None:
            headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
            self._session = aiohttp.ClientSession(headers=headers)
        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            # Elsewhere the token must not go.
            async with self._session.request(
                method, url, **content, timeout=timeout, allow_redirects=False
            ) as response:
                answer = await response.json(content_type=None)
                return response.status, answer if isinstance(answer, dict) else {}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return SERVER_FAULT, {"error": f"{type(error).__name__}: {error}"}

    async def send(
        self,
        room: str,
        content: Json,
        key: str,
        *,
        kind: str = "m.room.message",
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> str:
        """Send an event and return its id; of one `key` the homeserver makes one event."""
        return str((await self.call("PUT", ("rooms", room, "send", kind, key), content, check=check))["event_id"])

    async def find_event(self, room: str, event_id: str) -> Json | None:
        """Return an event of the room; None if it is not there, or not to be had now."""
        with suppress(Refused, Unavailable):
            return await self.call("GET", ("rooms", room, "event", event_id))
        return None

    async def open_direct(self, account: str) -> str:
        """Return the direct room with a person, made if there is none."""
        me = await self.find_me()
        for room in (await self._list_directs()).get(account) or ():
            with suppress(Refused):
                members = await self.call("GET", ("rooms", room, "joined_members"))
                if set(members["joined"]) <= {me, account}:
                    return str(room)
        options = {"preset": "trusted_private_chat", "is_direct": True, "invite": [account]}
        room = str((await self.call("POST", ("createRoom",), options))["room_id"])
        await self.note_direct(account, room)
        return room

    async def note_direct(self, account: str, room: str) -> None:
        """Note beside the account that a room is the direct one with a person."""
        directs = await self._list_directs()
        path = ("user", await self.find_me(), "account_data", "m.direct")
        await self.call("PUT", path, directs | {account: [*(directs.get(account) or ()), room]})

    async def _list_directs(self) -> Json:
        with suppress(Refused):
            return await self.call("GET", ("user", await self.find_me(), "account_data", "m.direct"))
        return {}
