"""How far a platform was listened to: rows in Postgres, for the next process that listens.

`Checkpoint`: the time up to which every message is stored. While a process listens, the platform delivers a message
within seconds, or repeats it until it is accepted. `Lease`: where one process alone listens, with the platform's mark.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from adapters.base import BotAccount, name_holder
from shared.db.database import Database, DatabaseLost
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import Unavailable

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

# Older messages have arrived, or the platform repeats them.
IN_TRANSIT = timedelta(seconds=15)
HELD_SECONDS = 30
NOTE_SECONDS, LOOK_SECONDS, LOST_SECONDS = 5.0, 0.5, 20.0
LEASE_SECONDS, RENEW_SECONDS, WAIT_SECONDS = 30, 8, 3


class Checkpoint:
    """The mark of one bot, shared by all its processes: seconds since 1970, as text.

    What one process has not stored yet is a row of its own: others move the mark on, and read it when that one dies.
    """

    def __init__(self, database: Database, platform: str, token: str) -> None:
        self._database, self._bot = database, BotAccount(database, platform, token)
        self._number, self._has_row = secrets.randbelow(2**31 - 1) + 1, False
        # What others have left unread, until the caller has it: a commit may be lost to us and not to the database.
        self._marks: list[str] = []

    async def find_gap(self) -> str | None:
        """Return the time since which no process has listened; None if one does, or if it is unknown."""
        parameters = {"bot_id": await self._bot.find_id(), "held": HELD_SECONDS}
        async with self._database.statement() as session:
            row = (await session.execute(statements.find_gap, parameters)).one()
        return None if row.is_held else row.seen_id

    async def note(self, now: datetime, missing_since: str | None = None) -> Sequence[str]:
        """Store that a process listens now, if the database is there; `missing_since`: since then not all is stored.

        Return the marks from which on others have left messages unread.
        """
        mark = to_mark(now - IN_TRANSIT)
        parameters: dict[str, Any] = {"seen": min(mark, missing_since or mark, key=float), "held": HELD_SECONDS}
        with suppress(DatabaseLost):
            parameters |= {"bot_id": await self._bot.find_id(), "number": self._number}
            async with self._database.transaction() as session:
                await session.execute(statements.note_seen, parameters)
                rows = (await session.execute(statements.take_left, parameters)).all()
                self._marks += [str(row.seen_id) for row in rows]
                await self._note_missing(session, parameters, to_missing(now, *self._marks, missing_since))
            marks, self._marks = self._marks, []
            return marks
        return ()

    async def release(self, now: datetime, missing_since: str | None = None) -> None:
        """Store that this process no longer listens, and what others are to read, if the database is there."""
        parameters: dict[str, Any] = {"number": self._number, "held": HELD_SECONDS}
        with suppress(DatabaseLost):
            parameters["bot_id"] = await self._bot.find_id()
            async with self._database.transaction() as session:
                await self._note_missing(session, parameters, to_missing(now, *self._marks, missing_since))
                await session.execute(statements.release, parameters)

    async def _note_missing(self, session: Session, parameters: dict[str, Any], oldest: str | None) -> None:
        if oldest is not None:
            await session.execute(statements.note_missing, parameters | {"missing": oldest})
        elif self._has_row:
            await session.execute(statements.forget_missing, parameters)
        self._has_row = oldest is not None


async def attend(
    app: "App",
    checkpoint: Checkpoint,
    is_connected: Callable[[], Awaitable[bool]],
    *,
    find_oldest: Callable[[], str | None],
    catch_up: Callable[..., None],
) -> None:
    """Update the checkpoint while we listen; raises `Unavailable` if a lost connection does not come back.

    `find_oldest`: from which mark on not all is stored. `catch_up` begins to read from marks on.
    """
    last, last_note = app.clock.monotonic(), 0.0
    try:
        while True:
            now = app.clock.monotonic()
            last = now if await is_connected() else last
            if now - last > LOST_SECONDS:
                raise Unavailable("The connection to the platform is lost.")
            if last == now and now - last_note >= NOTE_SECONDS:
                last_note = now
                catch_up(*await checkpoint.note(app.clock.now(), find_oldest()))
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await checkpoint.release(app.clock.now(), find_oldest())


def to_missing(now: datetime, *marks: str | None) -> str | None:
    """Return the earliest mark after which messages do not come again by themselves; None: all do."""
    latest = (now - 2 * IN_TRANSIT).timestamp()
    return min([mark for mark in marks if mark is not None and float(mark) < latest], key=float, default=None)


def oldest_missed(app: "App") -> datetime:
    """Return the oldest time that catch-up covers."""
    return app.clock.now() - timedelta(hours=app.settings.catch_up_hours)


def to_mark(moment: datetime) -> str:
    """Return a time as a mark."""
    return f"{moment.timestamp():.6f}"


class Lease:
    """The right to listen to an account, of one process at a time by the database's clock, and the platform's mark.

    A process that dies is followed by another one within LEASE_SECONDS + WAIT_SECONDS.
    """

    def __init__(self, app: "App", platform: str, account: str) -> None:
        self._app = app
        self._row = {"platform": platform, "account": account, "holder": name_holder()}

    async def listen(self, work: Callable[[str | None], Awaitable[None]]) -> None:
        """Wait for the lease, then listen by `work`, which begins at the mark, until it ends or fails.

        Raises `Unavailable` when another process has taken the lease, or when the database has lost its last commits:
        the mark is lost together with the messages, and both are read again from the mark that it has.
        """
        while (row := await self._take()) is None:  # noqa: ASYNC110  # an end of time, which nobody tells
            await asyncio.sleep(WAIT_SECONDS)
        was_reset = asyncio.Event()
        tasks = [asyncio.create_task(self._hold(was_reset)), asyncio.ensure_future(work(row.mark))]
        try:
            with self._app.events.failovers.observed(lambda _since: was_reset.set()):
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(DatabaseLost):
                await self._execute(statements.release_lease)

    async def note(self, mark: str) -> None:
        """Store that every message up to this mark is stored; raises `Unavailable` without the lease."""
        if await self._execute(statements.note_mark, mark=mark) is None:
            raise Unavailable("Another process listens to this account.")

    async def _hold(self, was_reset: asyncio.Event) -> None:
        while not was_reset.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(was_reset.wait(), RENEW_SECONDS)
            if await self._take() is None:
                raise Unavailable("Another process listens to this account.")
        raise Unavailable("The database has lost its last commits.")

    async def _take(self) -> Any:
        return await self._execute(statements.take_lease, lease=LEASE_SECONDS)

    async def _execute(self, statement: Any, **values: Any) -> Any:
        async with self._app.database.statement() as session:
            return (await session.execute(statement, self._row | values)).one_or_none()
