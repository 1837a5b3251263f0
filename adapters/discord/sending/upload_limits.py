"""How large each file of a message may be: this depends on the server."""

from typing import TYPE_CHECKING

from adapters.discord.transport.rest import Refused, Rest
from shared.errors import Unavailable

if TYPE_CHECKING:
    from shared.messages import Place

MEGABYTE = 1024 * 1024
# Discord's documented limits for each file; what else stands between may allow less, which the first refusal shows.
DEFAULT, LESS = 10 * MEGABYTE, 5 * MEGABYTE
# The files of one message are held in memory.
MOST_BYTES = 100 * MEGABYTE
BY_BOOST_TIER = {2: 50 * MEGABYTE, 3: 100 * MEGABYTE}
MOST_REMEMBERED = 1000


class UploadLimits:
    """The known limits of servers; `None` stands for direct messages."""

    def __init__(self) -> None:
        self._known: dict[str | None, int] = {}

    async def find(self, rest: Rest, place: "Place", wanted: int) -> int:
        """Return the limit in bytes; Discord is asked only if a file exceeds the default."""
        if place.server not in self._known and place.server is not None and wanted > DEFAULT:
            self._keep(place.server, await _ask(rest, place.server))
        return self._known.get(place.server, DEFAULT)

    def note_refusal(self, place: "Place", tried: int) -> int:
        """Note that this size was refused; return the limit to try next."""
        allowed = next((each for each in (DEFAULT, LESS) if each < tried), 0)
        # One message without files says nothing about the next one.
        self._keep(place.server, allowed or LESS)
        return allowed

    def _keep(self, server: str | None, allowed: int) -> None:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[server] = allowed


async def _ask(rest: Rest, server: str) -> int:
    try:
        guild = await rest.call("GET", "/guilds/{guild_id}", guild_id=server)
    except (Refused, Unavailable):
        return DEFAULT
    return BY_BOOST_TIER.get(int(guild.get("premium_tier", 0)), DEFAULT)
