"""Matrix as a `ChatPlatform`: one process listens, every worker sends and shows live text."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from adapters.base import ChatPlatform, Finding
from adapters.chat.live import show_live
from adapters.matrix.client import Client, Refused
from adapters.matrix.incoming import CREDENTIAL, DOWNLOAD
from adapters.matrix.rooms import NAME
from adapters.matrix.sending import LiveMessage, Sender
from adapters.matrix.settings import MatrixSettings
from shared.errors import Undeliverable

if TYPE_CHECKING:
    from agent.live.announcer import LiveTurn
    from agent.queue.outbox import Reply
    from shared.settings import Settings


class MatrixPlatform(ChatPlatform):
    """One account of a homeserver."""

    name = NAME
    settings: MatrixSettings

    def __init__(self, settings: MatrixSettings) -> None:
        super().__init__(settings)
        token = settings.token.get_secret_value() if settings.token else ""
        self.client = Client(settings.homeserver or "", token)

    @property
    def sender(self) -> Sender:
        """Return what posts replies; raises `Unavailable` while the platform is not open."""
        return Sender(self.app, self.client)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()
        await super().aclose()

    async def receive(self) -> None:
        """Listen until the connection or the lease is lost."""
        # Imported here because a worker does not listen.
        from adapters.matrix.listening import Listener

        me = await self.client.find_me()
        if self.settings.user not in (None, me):
            raise Undeliverable(f"MATRIX_TOKEN is that of {me}, and MATRIX_USER names {self.settings.user}.")
        await Listener(self, me).run()

    async def send(self, reply: "Reply") -> str | None:
        """Post a reply; one that was already posted is not posted again."""
        return await self.sender.send(reply)

    async def show(self, turn: "LiveTurn") -> None:
        """Show an answer as live text."""
        await show_live(turn, LiveMessage(self.sender, turn))

    async def find_headers(self, url: str, credential: str) -> Mapping[str, str]:
        """Return the token for a file of the agent's own homeserver."""
        is_own = credential == CREDENTIAL and url.startswith(f"{self.client.homeserver}{DOWNLOAD}")
        return {"Authorization": f"Bearer {self.client.token}"} if is_own else {}

    async def examine(self, settings: "Settings") -> AsyncGenerator[Finding]:  # all is asked of the homeserver
        """Yield what `parley doctor` reports: the account, its rooms, which of them are encrypted."""
        try:
            me = await self.client.find_me()
            is_meant = self.settings.user in (None, me)
            yield Finding("ok" if is_meant else "fail", f"the token is {me}'s, at {self.client.homeserver}")
            rooms = (await self.client.call("GET", ("joined_rooms",)))["joined_rooms"]
            hint = "" if rooms else f"; invite {me} to one (MATRIX_INVITES={self.settings.invites})"
            yield Finding("ok" if rooms else "warn", f"rooms: {len(rooms)}{hint}")
            for room in rooms:
                with suppress(Refused):
                    await self.client.call("GET", ("rooms", room, "state", "m.room.encryption"))
                    yield Finding("warn", f"{room} is encrypted: nothing is answered there")
        finally:
            await self.client.aclose()
