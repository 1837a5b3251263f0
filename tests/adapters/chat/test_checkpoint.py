"""What one door has not stored is another one's to read, whatever becomes of the connection meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from adapters.chat.checkpoint import Checkpoint, to_mark
from shared.clock import SystemClock
from shared.db.database import Address, Database, DatabaseLost


class Unheard(Database):
    """A database of which the first commit takes place, and nobody hears of it."""

    is_heard = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Lose the connection after the first commit."""
        async with super().transaction() as session:
            yield session
        if not self.is_heard:
            self.is_heard = True
            raise DatabaseLost


async def test_what_a_door_has_left_is_read_though_nobody_heard_that_it_was_taken_over(address: Address) -> None:
    now = SystemClock().now()
    mark = to_mark(now - timedelta(hours=1))
    database, unheard = Database(address), Unheard(address)
    try:
        one, other = Checkpoint(database, "slack", "token"), Checkpoint(unheard, "slack", "token")
        assert await one.find_gap() is None
        await one.release(now, mark)

        assert await other.note(now) == ()
        assert await other.note(now) == [mark]
        assert await other.note(now) == []
    finally:
        await unheard.close()
        await database.close()
