"""Up to when everything that was written is stored: kept in Postgres, for whoever listens next.

While one process listens, Slack gives it what is written within seconds, or again until it is taken.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import text

from shared.db.database import Database, DatabaseLost
from shared.errors import Unavailable

if TYPE_CHECKING:
    from agent.app import App
    from shared.settings import Settings

# What is older than this has come, or comes again by Slack's own means.
ON_ITS_WAY = timedelta(seconds=15)
HELD_SECONDS = 30
NOTE_SECONDS, LOOK_SECONDS, LOST_SECONDS = 5.0, 0.5, 20.0

BOT = text("""
INSERT INTO bots (platform, token_hash) VALUES ('slack', :token_hash)
ON CONFLICT (platform, token_hash) DO UPDATE SET platform = excluded.platform RETURNING id
""")
# The row of the first one who listens is made here, and says nothing.
LOOK = text("""
INSERT INTO shards (bot_id, shard_id) VALUES (:bot_id, 0)
ON CONFLICT (bot_id, shard_id) DO UPDATE SET shard_id = 0
RETURNING seen_id, coalesce(leased_until > now(), false) AS is_held
""")
NOTE = text("""
UPDATE shards SET seen_id = greatest(seen_id, :seen), leased_until = now() + :held * interval '1 second'
WHERE bot_id = :bot_id AND shard_id = 0
""")
LEAVE = text("UPDATE shards SET leased_until = NULL WHERE bot_id = :bot_id AND shard_id = 0")


class Checkpoint:
    """The mark of one app, for all its processes."""

    def __init__(self, database: Database, settings: "Settings") -> None:
        named = settings.slack_bot_token.get_secret_value() if settings.slack_bot_token else settings.slack_client_id
        self._token_hash = hashlib.sha256((named or "").encode()).hexdigest()[:16]
        self._database = database
        self._bot_id: int | None = None

    async def find_gap(self) -> str | None:
        """Return since when nobody has listened; None when somebody does, or nothing is known."""
        async with self._database.statement() as session:
            if self._bot_id is None:
                self._bot_id = int((await session.execute(BOT, {"token_hash": self._token_hash})).scalar_one())
            row = (await session.execute(LOOK, {"bot_id": self._bot_id})).one()
        return None if row.is_held else row.seen_id

    async def note(self, now: datetime) -> None:
        """Note that somebody listens."""
        given = {"bot_id": self._bot_id, "seen": to_ts(now - ON_ITS_WAY), "held": HELD_SECONDS}
        async with self._database.statement() as session:
            await session.execute(NOTE, given)

    async def leave(self) -> None:
        """Note that nobody does any more, as far as this process knows."""
        async with self._database.statement() as session:
            await session.execute(LEAVE, {"bot_id": self._bot_id})


async def attend(app: "App", seen: Checkpoint, is_connected: Callable[[], Awaitable[bool]]) -> None:
    """Note that we listen as long as we do; raises `Unavailable` when the connection is gone and does not come back."""
    last, noted = app.clock.monotonic(), 0.0
    while True:
        now = app.clock.monotonic()
        last = now if await is_connected() else last
        if now - last > LOST_SECONDS:
            raise Unavailable("The socket to Slack is lost.")
        if last == now and now - noted >= NOTE_SECONDS:
            noted = now
            with suppress(DatabaseLost):
                await seen.note(app.clock.now())
        await asyncio.sleep(LOOK_SECONDS)


def to_ts(moment: datetime) -> str:
    """Return a moment as Slack writes it."""
    return f"{moment.timestamp():.6f}"
