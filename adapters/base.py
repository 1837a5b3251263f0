"""One interface for chat platforms: `ChatPlatform` with its optional parts, its settings, and what keeps it running."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from agent.queue.inbox import Accepted, accept
from shared.db.retries import retry_on_lost_db
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger

if TYPE_CHECKING:
    from starlette.routing import Route

    from agent.app import App
    from agent.events.live import LiveTurn
    from agent.queue.outbox import Reply
    from shared.messages import IncomingMessage
    from shared.settings import Settings

# A message that can't be stored for longer is found again by the next catch-up, or sent again by the platform.
STORE_SECONDS = 120.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
# After so long without a failure the next wait is short again.
STEADY_SECONDS = 600.0

log = get_logger()


class Finding(NamedTuple):
    """One result of `parley doctor`."""

    level: Literal["ok", "warn", "fail"]
    text: str


@dataclass(frozen=True)
class PlatformSettings:
    """A platform's own settings: each field is read from the variable `<PLATFORM>_<FIELD>`."""

    @property
    def missing(self) -> str | None:
        """Return what has to be set before the platform can be used; None when it is configured."""
        return None

    @property
    def serves_http(self) -> bool:
        """Return whether the platform has `routes`, so that the process with the web adapter opens it, too."""
        return False

    @property
    def origins(self) -> Mapping[str, str]:
        """Return the platform's own addresses by variable: its files may be fetched from there, private or not."""
        return {}


class ChatPlatform(ABC):
    """One chat platform. `receive` and `send` are its own; everything else has a default that does nothing.

    One process listens, every worker sends: both open the same class.
    """

    name: ClassVar[str]

    def __init__(self, settings: PlatformSettings) -> None:
        self.settings = settings
        self._app: App | None = None

    @property
    def app(self) -> "App":
        """Return the house's collaborators; raises `Unavailable` while the platform is not open."""
        if self._app is None:
            raise Unavailable(f"{self.name} is not open in this process.")
        return self._app

    async def open(self, app: "App") -> None:
        """Take the house's collaborators; nothing is sent yet."""
        self._app = app

    async def aclose(self) -> None:
        """Close the connections."""
        self._app = None

    async def listen(self, app: "App") -> None:
        """Accept what people write, until cancelled; a connection that is lost is made again."""
        # Where it sends as well, whoever opened it closes it: answers go out for longer than messages come in.
        is_ours = self._app is None
        if is_ours:
            await self.open(app)
        try:
            await stay_up(self.name, self.receive, app.clock.monotonic)
        finally:
            if is_ours:
                await self.aclose()

    async def accept(self, message: "IncomingMessage") -> Accepted:
        """Store a message; the same event is stored once, however often it comes."""
        return await retry_on_lost_db(lambda: accept(self.app.database, message), STORE_SECONDS)

    @abstractmethod
    async def receive(self) -> None:
        """Hold one connection and accept what comes through it, until it is lost."""

    @abstractmethod
    async def send(self, reply: "Reply") -> str | None:
        """Post a reply and return the platform's id of it; the same reply is never posted twice.

        Raises `Unavailable` to be tried again, `Undeliverable` when that would not help.
        """

    async def show(self, turn: "LiveTurn") -> None:  # noqa: B027  # a part that a platform may leave out
        """Show an answer while it grows, until the turn ends."""

    async def find_headers(self, url: str, credential: str) -> Mapping[str, str]:  # for overrides
        """Return the headers that open a file of the platform's own; nobody else may be shown them."""
        return {}

    def routes(self) -> Sequence["Route"]:
        """Return what the web adapter serves for the platform."""
        return ()

    async def examine(self, settings: "Settings") -> AsyncGenerator[Finding]:  # for overrides
        """Yield what `parley doctor` reports; the platform is not open."""
        nothing: tuple[Finding, ...] = ()
        for finding in nothing:
            yield finding


async def stay_up(name: str, start: Callable[[], Awaitable[None]], now: Callable[[], float]) -> None:
    """Run this for ever: what ends it is logged, and it is started again, after a wait that grows.

    A client library that receives nonsense from its platform ends with any kind of error; that must not
    end the process.
    """
    wait = FIRST_WAIT
    while True:
        began = now()
        try:
            await start()
        except Undeliverable as error:
            # A token that is refused, a permission that is missing: the message says it all, a traceback adds nothing.
            log.error("platform_refuses", platform=name, cause=str(error), again_in=LONGEST_WAIT)
            wait = LONGEST_WAIT
        except Unavailable as error:
            log.warning("platform_unreachable", platform=name, cause=str(error.__cause__ or error), again_in=wait)
        except Exception:
            # Anything that a library's parser fails at; the next connection does not bring it again.
            log.exception("platform_lost", platform=name, again_in=wait)
        wait = FIRST_WAIT if now() - began > STEADY_SECONDS else wait
        await asyncio.sleep(wait)
        wait = min(LONGEST_WAIT, wait * 2)
