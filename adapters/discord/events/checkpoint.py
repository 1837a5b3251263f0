"""What the next catch-up needs: the id up to which every message is stored, and the channels of direct messages.

Discord lists these channels nowhere, so each one is stored when a message comes from it. They are kept apart from the
conversations, whose channels may also be named by callers of the HTTP API.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import text

from adapters.base import BotAccount
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


class Checkpoint:
    """Discord's ids grow with time, so one id is a checkpoint for all channels."""

    def __init__(self) -> None:
        self._newest = 0
        self._open: set[int] = set()

    def begin_at(self, known: str | None) -> None:
        """Continue from the previous holder's checkpoint; None means that there is nothing to catch up on."""
        if known is not None and known.isdecimal():
            self._newest = min(self._newest or int(known), int(known))

    @property
    def newest(self) -> int:
        """Return the id up to which everything is stored, 0 if unknown."""
        return min([self._newest, *(each - 1 for each in self._open)])

    def to_text(self) -> str | None:
        """Return the checkpoint for the database."""
        return str(self.newest) if self.newest > 0 else None

    def begin_now(self, message_id: int) -> None:
        """Begin at this id unless a checkpoint is known."""
        self._newest = self._newest or message_id

    def hold(self) -> int:
        """Return the checkpoint and keep it there until `release`: missed messages may be older than new ones."""
        since = self.newest
        if since:
            self._open.add(since + 1)
        return since

    def release(self, since: int) -> None:
        """Advance the checkpoint again: everything missed after `since` is stored."""
        self._open.discard(since + 1)

    @contextmanager
    def accepting(self, message_id: int) -> Iterator[None]:
        """Advance past a message if the block succeeds; after a failure the next catch-up finds it again."""
        self._open.add(message_id)
        yield
        # Not in a `finally`: after a cancellation the message is not stored.
        self._open.discard(message_id)
        self._newest = max(self._newest, message_id)


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
