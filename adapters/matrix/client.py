"""The Client-Server API with the token of one account."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from adapters.api_client import ApiClient, Check, File, Json
from adapters.chat.account.profiles import Profile
from shared.errors import Unavailable, Undeliverable
from shared.messages import Place

MEDIA = "/_matrix/media/v3"
PROFILE = "parley.profile"
NOT_ACCEPTED = "The homeserver refuses MATRIX_TOKEN; make another one with `parley matrix login`."


class Refused(Undeliverable):
    """A request that the homeserver refuses, with the code of its error."""

    def __init__(self, errcode: str, text: str) -> None:
        self.errcode = errcode
        super().__init__(NOT_ACCEPTED if errcode == "M_UNKNOWN_TOKEN" else f"Matrix refuses: {errcode}: {text}")


class Client(ApiClient):
    """One account at its homeserver."""

    title, root = "The homeserver", "/_matrix/client/v3"

    def __init__(self, homeserver: str, token: str = "") -> None:
        super().__init__(homeserver, {"Authorization": f"Bearer {token}"} if token else {})
        self.token = token
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

    async def send(
        self, room: str, content: Json, key: str, *, kind: str = "m.room.message", check: Check | None = None
    ) -> str:
        """Send an event and return its id; of one `key` the homeserver makes one event."""
        return str((await self.call("PUT", ("rooms", room, "send", kind, key), content, check=check))["event_id"])

    async def upload(self, file: File, *, filename: str = "", check: Check | None = None) -> str:
        """Upload a file and return its address."""
        answer = await self.call("POST", ("upload",), file, root=MEDIA, check=check, filename=filename)
        return str(answer["content_uri"])

    async def set_profile(self, place: Place, profile: Profile | None) -> None:
        """Show a profile in a room, noted beside it; what it has not is the account's own."""
        me = await self.find_me()
        own = await self.call("GET", ("profile", me))
        shown = {key: own[key] for key in ("displayname", "avatar_url") if key in own}
        content: Json = {"membership": "join"} | shown
        if profile is not None:
            content |= {"displayname": profile.name, PROFILE: profile.row}
            content |= {"avatar_url": profile.picture} if profile.picture else {}
        path = ("rooms", place.channel, "state", "m.room.member", me)
        await self.call("PUT", path, content, check=partial(self._check_member, path))

    async def _check_member(self, path: Sequence[str]) -> None:
        """Raise `Undeliverable` for an account that was put out: in a public room, a profile would join again."""
        if (await self.call("GET", path)).get("membership") != "join":
            raise Undeliverable("The account is not in the room any more.")

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
