"""Hands what Slack sends to the cell of its workspace; where there are no cells, to the only database."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

from adapters.chat.addressing import Rules
from adapters.slack.bolt import build_app, on_error
from adapters.slack.events.directory import Directory
from adapters.slack.events.events import Events
from adapters.slack.events.incoming import PLATFORM
from adapters.slack.events.listening import Listening
from adapters.slack.install.tokens import open_clients
from adapters.slack.interactions.actors import list_teams
from adapters.slack.interactions.respond import Responses, url_of
from adapters.slack.refusals import STOPPED, tell_refusal
from adapters.slack.transport.api import Json, Web
from shared.errors import ServerMoving, Unavailable
from shared.messages import Place

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from adapters.base import Running
    from adapters.cells.routes import Cells
    from adapters.slack.install.installations import Installations
    from adapters.slack.settings import SlackSettings
    from adapters.slack.transport.clients import Clients
    from agent.app import App
    from shared.db.database import Database

# They are stored while a workspace moves, too; everything else comes again, or is refused.
MESSAGES = frozenset({"message", "app_mention"})

Result = TypeVar("Result")


def is_message(body: Json) -> bool:
    """Return whether a request tells of a message."""
    event = body.get("event")
    return isinstance(event, dict) and event.get("type") in MESSAGES


class Receiver(Struct, frozen=True):
    """What accepts events, clicks and commands of the workspaces in one database."""

    app: "App"
    clients: "Clients"
    events: Events
    bolt: "AsyncApp"


class Receivers:
    """The receivers of all cells, of which `app` is the first one's: each is made when something comes for it."""

    def __init__(
        self,
        app: "App",
        settings: "SlackSettings",
        running: "Running",
        *,
        clients: "Clients",
        installations: "Installations | None",
        cells: "Cells | None",
    ) -> None:
        self._settings, self._running, self._cells = settings, running, cells
        # What was said in a channel is known whichever cell its workspace lives in.
        self._listening = Listening(Directory(app.clock, running), Rules(app.database, cells))
        self._receivers: dict[Database, Receiver] = {}
        self._first = self._open(app, clients, installations)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the cells; one without a name where there are none."""
        return ("",) if self._cells is None else self._cells.names

    def find_in(self, name: str) -> Receiver | None:
        """Return the receiver of a cell by its name, None while that is away."""
        if self._cells is None:
            return self._first
        return self._of(self._cells.apps[name]) if name in self._cells.apps else None

    async def find_home(self, team: str) -> "App":
        """Return the app of the cell in which a workspace lives; raises `CellAway`, or `ServerMoving`."""
        if self._cells is None:
            return self._first.app
        place = Place(PLATFORM, team, "")
        # While a cell is away, nothing is read for all its workspaces.
        self._cells.list_apps(place)
        await self._cells.read_again(place)
        app, *others = self._cells.list_apps(place)
        if others:
            raise ServerMoving
        return app

    async def aclose(self) -> None:
        """Close the connections for other cells than the first one."""
        for receiver in self._receivers.values():
            if receiver is not self._first:
                await receiver.clients.aclose()

    async def async_dispatch(self, request: AsyncBoltRequest) -> BoltResponse:
        """Handle a request in the cell of its workspace; the library calls this method of its own apps."""
        if self._cells is None:
            return await self._first.bolt.async_dispatch(request)

        async def dispatch(receiver: Receiver) -> BoltResponse:
            # A request is changed by those who handle it, and the next cell may be asked.
            own = request.to_copyable()
            own.context["team_id"] = team
            return await receiver.bolt.async_dispatch(own)

        team = request.context.team_id
        try:
            team = await self._find_team(request)
            return await self.use(team, dispatch, is_message=is_message(request.body))
        except Unavailable as error:
            return await self._put_off(request, team, error)

    async def find_web(self, team: str | None) -> Web | None:
        """Return a workspace's client, None if the app is not installed there; raises `CellAway`."""
        if self._cells is None or team is None:
            return await self._first.clients.find(team)
        place = Place(PLATFORM, team, "")
        apps: Sequence[App] = ()
        # What is known of its way may be old: its token is where it is now.
        while (latest := self._cells.list_apps(place)) != apps:
            apps = latest
            for app in apps:
                if (web := await self._of(app).clients.find(team)) is not None:
                    return web
            await self._cells.read_again(place)
        return None

    async def _find_team(self, request: AsyncBoltRequest) -> str | None:
        """Return the workspace for which a request is meant: of several that where the app is installed."""
        is_click = not {"event", "command"} & request.body.keys()
        teams: dict[str | None, None] = dict.fromkeys(list_teams(request.body) if is_click else ())
        *others, last = teams | {request.context.team_id: None}
        for team in others:
            if await self.find_web(team) is not None:
                return team
        return last

    async def use(
        self, team: str | None, work: Callable[[Receiver], Awaitable[Result]], *, is_message: bool = True
    ) -> Result:
        """Do work with the receiver of a workspace's cell; raises as `Cells.use` does."""
        if self._cells is None or team is None:
            return await work(self._first)
        place = Place(PLATFORM, team, "")
        return await self._cells.use(place, lambda app: work(self._of(app)), is_message=is_message, has_rows=True)

    async def _put_off(self, request: AsyncBoltRequest, team: str | None, error: Unavailable) -> BoltResponse:
        """Tell why nothing can be done just now; an event is taken up later, but for a click."""
        body, view = request.body, request.body.get("view") or {}
        if body.get("type") == "view_submission":
            fields = [block.get("block_id") for block in view.get("blocks") or () if block.get("type") == "input"]
            return BoltResponse(
                status=200, body={"response_action": "errors", "errors": dict.fromkeys(fields[:1], str(error))}
            )
        if url := url_of(body):
            self._running.start(Responses(self._first.clients).whisper(url, str(error)), "slack refusal")
        elif not is_message(body):
            self._running.start(tell_refusal(self.find_web, team, body, sentence=str(error)), "slack refusal")
        event = body.get("event")
        if isinstance(event, dict) and event.get("type") != STOPPED:
            return await on_error(error, body)
        return BoltResponse(status=200)

    def _of(self, app: "App") -> Receiver:
        return self._receivers.get(app.database) or self._open(app, *open_clients(app, self._settings))

    def _open(self, app: "App", clients: "Clients", installations: "Installations | None") -> Receiver:
        events = Events(app, clients, self._running, listening=self._listening, cells=self._cells)
        build = partial(build_app, events=events, installations=installations, cells=self._cells)
        receiver = Receiver(app, clients, events, bolt=build(app, clients, self._running))
        self._receivers[app.database] = receiver
        return receiver
