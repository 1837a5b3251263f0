"""The routing table at the door: which cell a server lives in.

Each cell says in `cell_servers` which servers have come to it and which have gone where; without a row a server lives
in the first cell. What a door remembers of that only saves a way: the cell itself decides, in the transaction that
stores a message, whether the server is its own (`parley_refuse_moved`), and a door that was refused reads again and
asks the next. So a message is stored in one cell. While a server moves, the cell that it leaves is asked first: an
event that comes again is known there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from agent.app import App
from agent.queue.inbox import Accepted
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ServerMoved, ServerMoving
from shared.log import get_logger
from shared.messages import IncomingMessage, Place

statements = load_statements(__file__)

# A move between two looks at the table is rare, two are never seen.
MOST_TRIES = 5
TABLE = "cell_servers"
# How long a command waits for the end of a move, and between two looks.
LONGEST_MOVE_SECONDS, LOOK_SECONDS = 300.0, 0.25
# How long a cell that says nothing is waited for; then what it noted last counts, and it decides itself.
READ_SECONDS = 2.0

Result = TypeVar("Result")
Key = tuple[str, str]

log = get_logger()


class CellAway(DatabaseLost):
    """This server lives in a part of the installation that can't be reached just now; please try again in a minute."""

    code = "cell_away"


class Route(NamedTuple):
    """What a cell notes of a server."""

    state: str
    other: str


class Cells:
    """The cells behind a door: an app for each that is reached, the first one first, and what each notes of servers."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.apps: dict[str, App] = {}
        self._routes: dict[str, dict[Key, Route]] = {name: {} for name in names}
        # One reads after the other, so that what was read last is the newest. Who comes while one waits for that shares
        # it: before a cell that says nothing there is one who waits, however many ask.
        self._locks = {name: asyncio.Lock() for name in names}
        self._next: dict[str, asyncio.Task[None]] = {}
        self._reading: set[asyncio.Task[None]] = set()

    async def add(self, name: str, app: App) -> None:
        """Route to a cell that is open from now on."""
        app.events.on_change(lambda table: self._note_change(name, table))
        async with self._locks[name]:
            await self._read(name, app)
        self.apps[name] = app

    async def aclose(self) -> None:
        """Wait until what is read just now has given its connections back."""
        if self._reading:
            await asyncio.wait(self._reading, timeout=READ_SECONDS)

    async def read_again(self, place: Place) -> None:
        """Read what the cells on the way to a server note; of one that is away, what it noted last counts."""
        name, key, is_last = self.names[0], (place.platform, place.server or ""), False
        for _ in self.names if place.server is not None else ():
            if name in self.apps:
                # It is not cancelled: a connection to a silent server takes its time to end.
                await asyncio.wait({self._read_soon(name)}, timeout=READ_SECONDS)
            route = self._routes[name].get(key)
            if is_last or route is None or route.state == "here" or route.other not in self._routes:
                return
            # The other end of a move knows whether it is cancelled.
            name, is_last = route.other, route.state != "moved"

    def find(self, platform: str, server: str | None, *, has_rows: bool = False) -> tuple[str, ...]:
        """Return the cells in which a server's message may be stored, in the order in which they are asked.

        With `has_rows` the one that has the server's rows comes first: of a move that is cancelled, where it goes.
        What has no server, such as a direct message, is at home in the first cell.
        """
        name, key = self.names[0], (platform, server or "")
        for _ in self.names if server is not None else ():
            route = self._routes[name].get(key)
            if route is None or route.state == "here":
                break
            if route.state != "moved":
                names = (route.other, name) if route.state == "arriving" else (name, route.other)
                is_back = self._routes.get(names[0], {}).get(key, route).state == "returning"
                return names[::-1] if has_rows and is_back else names
            if route.other not in self._routes:
                # CELLS names fewer cells than there are.
                raise CellAway
            name = route.other
        return (name,)

    def get(self, name: str) -> App:
        """Return the app of a cell; raises `CellAway`."""
        if name not in self.apps:
            raise CellAway
        return self.apps[name]

    def list_apps(self, place: Place) -> Sequence[App]:
        """Return the apps of the cells in which a server's message may be, the one with the server's rows first."""
        return [self.get(name) for name in self.find(place.platform, place.server, has_rows=True)]

    def __iter__(self) -> Iterator[App]:
        """Iterate over the apps of all cells that are open."""
        return iter([self.apps[name] for name in self.names if name in self.apps])

    async def use(
        self,
        place: Place,
        work: Callable[[App], Awaitable[Result]],
        *,
        is_message: bool = True,
        has_rows: bool = False,
    ) -> Result:
        """Do work for a place with the app of its cell: again with the next one when that cell refuses it.

        `has_rows`: the work reads settings of the server and stores its message by `accept`.
        Work that is no message is not for a server on its way: it would read what is not there yet, or write
        what is being copied. Raises `ServerMoving` then.
        """
        for _ in range(MOST_TRIES):
            if not is_message:
                await self.read_again(place)
            names = self.find(place.platform, place.server, has_rows=has_rows)
            if not is_message and len(names) > 1:
                raise ServerMoving(retry_after=30)
            for name in names:
                try:
                    return await work(self.get(name))
                except ServerMoved:
                    continue
            await self.read_again(place)
        raise ServerMoving(retry_after=30)

    async def until_settled(self, place: Place) -> None:
        """Return once the server is not on its way; raises `ServerMoving` after minutes."""
        until = asyncio.get_running_loop().time() + LONGEST_MOVE_SECONDS
        while len(self.find(place.platform, place.server)) > 1:
            if asyncio.get_running_loop().time() > until:
                raise ServerMoving
            await asyncio.sleep(LOOK_SECONDS)
            await self.read_again(place)

    async def check(self, place: Place, app: App, *, waits: bool = False) -> None:
        """Raise `ServerMoved` if a server's rows are not in the cell of this app, or not any more.

        `waits`: for the end of its way first; raises `ServerMoving` after minutes.
        """
        await self.read_again(place)
        if waits:
            await self.until_settled(place)
        if app is not self.list_apps(place)[0]:
            raise ServerMoved

    async def accept(self, message: IncomingMessage) -> Accepted:
        """Store a message in the cell of its server."""
        return await self.use(message.place, lambda app: app.inbox.accept(message))

    async def _read(self, name: str, app: App) -> None:
        async with app.database.statement() as session:
            rows = (await session.execute(statements.list_routes)).all()
            self._routes[name] = {
                (row.platform, row.platform_server_id): Route(row.state, row.other_cell) for row in rows
            }

    def _note_change(self, name: str, table: str | None) -> None:
        if table in {None, TABLE} and name in self.apps:
            _ = self._read_soon(name)

    def _read_soon(self, name: str) -> "asyncio.Task[None]":
        task = self._next.get(name)
        if task is None:
            task = self._next[name] = asyncio.get_running_loop().create_task(self._read_next(name), name="routes")
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
        return task

    async def _read_next(self, name: str) -> None:
        async with self._locks[name]:
            # What changes from here on may be missing in what is read.
            del self._next[name]
            # One that is lost now tells again when it is back.
            try:
                await self._read(name, self.apps[name])
            except DatabaseLost as error:
                log.warning("cell_away", cell=name, cause=str(error.__cause__ or error))
