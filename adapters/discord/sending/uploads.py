"""The files of a reply: how large they may be, and which are uploaded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adapters.chat.parts import Upload, collect
from adapters.discord.transport.rest import Refused, Rest
from shared.errors import Unavailable
from shared.messages import ReplyFile

if TYPE_CHECKING:
    from agent.app import App

MEGABYTE = 1024 * 1024
# Discord's documented limits for each file; what else stands between may allow less, which the first refusal shows.
DEFAULT_BYTES, LESS_BYTES = 10 * MEGABYTE, 5 * MEGABYTE
# A request may have 25 MiB, unless boosts allow a single file to be larger; some room is left for the message itself.
REQUEST_BYTES = 24 * MEGABYTE
BY_BOOST_TIER = {2: 50 * MEGABYTE, 3: 100 * MEGABYTE}
MOST_SERVERS = 1000


class UploadLimits(dict[str | None, int]):
    """The limit in bytes for each file of a message, by server, where it is known; `None`: direct messages."""

    async def find(self, rest: Rest, server: str | None, files: Sequence[ReplyFile]) -> int:
        """Return the limit for these files; asks Discord if one is larger than every server takes."""
        if any(file.size_bytes > DEFAULT_BYTES for file in files) and server is not None and server not in self:
            try:
                guild = await rest.call("GET", "/guilds/{guild_id}", guild_id=server)
            except (Refused, Unavailable):
                guild = {}
            self._keep(server, BY_BOOST_TIER.get(int(guild.get("premium_tier", 0)), DEFAULT_BYTES))
        return self.get(server, DEFAULT_BYTES)

    def note_refusal(self, server: str | None, tried: int) -> int:
        """Note that this size was refused; return the limit to try next."""
        max_bytes = next((size for size in (DEFAULT_BYTES, LESS_BYTES) if size < tried), 0)
        # One message without files says nothing about the next one.
        self._keep(server, max_bytes or LESS_BYTES)
        return max_bytes

    def _keep(self, server: str | None, max_bytes: int) -> None:
        if len(self) >= MOST_SERVERS:
            self.clear()
        self[server] = max_bytes


async def choose_uploads(app: "App", files: Sequence[ReplyFile], max_bytes: int) -> tuple[list[Upload], list[str]]:
    """Return the files of at most `max_bytes` each, as many as a request takes, and lines with links for others."""
    small = [file for file in files if max_bytes and file.size_bytes <= max_bytes]
    uploads, others = await collect(app, small, max(REQUEST_BYTES, max_bytes))
    links = [*(file for file in files if file not in small), *others]
    return uploads, [f"\n{link.filename}: <{link.url}>" for link in links]
