"""The channels of direct messages: Discord lists them nowhere, so each one is stored when a message comes from it.

They are kept apart from the conversations, whose channels may also be named by callers of the HTTP API.
"""

from collections import OrderedDict
from collections.abc import Callable

from sqlalchemy import text

from adapters.chat.checkpoint import BotAccount
from shared.db.database import Database

# A channel that is in use is noted again after this many seconds.
NOTED_SECONDS = 3600.0
MOST_REMEMBERED = 10_000
MOST_RECENT = 500

NOTE = text("""
INSERT INTO direct_channels (bot_id, platform_channel_id) VALUES (:bot_id, :channel)
ON CONFLICT (bot_id, platform_channel_id) DO UPDATE SET last_active_at = now()
""")
LIST = text("""
SELECT platform_channel_id FROM direct_channels WHERE bot_id = :bot_id AND last_active_at > now() - interval '30 days'
ORDER BY last_active_at DESC LIMIT :most
""")


class DirectChannels:
    """The direct conversations of one bot."""

    def __init__(self, database: Database, bot: BotAccount, monotonic: Callable[[], float]) -> None:
        self._database, self._bot, self._monotonic = database, bot, monotonic
        self._noted: OrderedDict[int, float] = OrderedDict()

    async def note(self, channel_id: int) -> None:
        """Store that this channel is in use."""
        now = self._monotonic()
        if now - self._noted.get(channel_id, -NOTED_SECONDS) < NOTED_SECONDS:
            return
        async with self._database.statement() as session:
            await session.execute(NOTE, {"bot_id": await self._bot.find_id(), "channel": str(channel_id)})
        self._noted[channel_id] = now
        if len(self._noted) > MOST_REMEMBERED:
            self._noted.popitem(last=False)

    async def list_recent(self) -> list[int]:
        """Return the channels in use within the last 30 days, the latest first."""
        given = {"bot_id": await self._bot.find_id(), "most": MOST_RECENT}
        async with self._database.statement() as session:
            rows = (await session.execute(LIST, given)).all()
        return [int(row.platform_channel_id) for row in rows]
