"""The Client-Server API with the token of one account."""

from contextlib import suppress

from adapters.api_client import ApiClient, Check, File, Json
from adapters.base import Refused
from adapters.chat.account.profiles import Profile
from adapters.matrix.settings import MatrixSettings
from shared.errors import Undeliverable
from shared.messages import Place

MEDIA, MESSAGE, PROFILE = "/_matrix/media/v3", "m.room.message", "parley.profile"


class Client(ApiClient):
    """One account at its homeserver."""

    title, root = "The homeserver", "/_matrix/client/v3"
    code_field, reason_field, wait_field = "errcode", "error", "retry_after_ms"

    def __init__(self, settings: MatrixSettings) -> None:
        super().__init__(settings.homeserver or "", settings.token)
        self.account = settings.user or ""

    async def check_account(self) -> None:
        """Make sure that the token is that of the account."""
        try:
            account = (await self.call("GET", ("account", "whoami"))).get("user_id")
        except Refused as error:
            raise Undeliverable(f"{error} `parley setup` asks for its address, and makes another token.") from error
        if account != self.account:
            raise Undeliverable(f"MATRIX_TOKEN is that of {account}, and MATRIX_USER names {self.account}.")

    async def send(self, room: str, content: Json, key: str, *, kind: str = MESSAGE, check: Check | None = None) -> str:
        """Send an event and return its id; of one `key` the homeserver makes one event."""
        return str((await self.call("PUT", ("rooms", room, "send", kind, key), content, check=check))["event_id"])

    async def upload(self, file: File, *, filename: str = "", check: Check | None = None) -> str:
        """Upload a file and return its address."""
        answer = await self.call("POST", ("upload",), file, root=MEDIA, check=check, filename=filename)
        return str(answer["content_uri"])

    async def set_profile(self, place: Place, profile: Profile | None) -> None:
        """Show a profile in a room, noted beside it; what it has not is the account's own."""
        own = await self.call("GET", ("profile", self.account))
        content: Json = {"membership": "join"} | {key: own[key] for key in ("displayname", "avatar_url") if key in own}
        if profile is not None:
            content |= {"displayname": profile.name, PROFILE: profile.row}
            content |= {"avatar_url": profile.picture} if profile.picture else {}
        path = ("rooms", place.channel, "state", "m.room.member", self.account)

        async def check() -> None:
            # In a public room, the profile of an account that was put out would join again.
            if (await self.call("GET", path)).get("membership") != "join":
                raise Undeliverable("The account is not in the room any more.")

        await self.call("PUT", path, content, check=check)

    async def find_event(self, room: str, event_id: object, *, patience: float = 0.0) -> Json:
        """Return an event of the room; an empty one if it is not there, or not to be had in so many seconds."""
        return await self.find(("rooms", room, "event", str(event_id)), patience=patience)

    async def note_direct(self, account: str, room: str) -> None:
        """Note beside the account that a room is the direct one with a person."""
        # The latest alone: whoever invites a thousand times fills nothing.
        rooms = await self.list_directs() | {account: [room]}
        await self.call("PUT", ("user", self.account, "account_data", "m.direct"), rooms)

    async def list_directs(self) -> Json:
        """Return the direct rooms by the person, as they are noted beside the account."""
        with suppress(Refused):
            return await self.call("GET", ("user", self.account, "account_data", "m.direct"))
        return {}
