"""The interface of chat platforms: `ChatPlatform`, and `DirectPlatform` where there are direct messages."""

import asyncio
import hashlib
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple
from uuid import uuid4

from adapters.settings import PlatformSettings
from agent.queue.inbox import Accepted
from agent.queue.outbox import DIRECT, Reply, to_key, without_late_note
from shared.db.database import Database, retry_on_lost_db
from shared.db.statements import load_statements
from shared.errors import EventIdInUse, Unavailable, Undeliverable
from shared.log import get_logger
from shared.messages import Place
from shared.settings import Secrets

statements = load_statements(__file__)

if TYPE_CHECKING:
    from starlette.routing import Route

    from adapters.cells.routes import Cells
    from agent.app import App
    from agent.live.announcer import LiveTurn
    from shared.messages import IncomingMessage
    from shared.settings import Settings

# Seconds of retries for storing a message; after them the next catch-up finds it, or the platform repeats it.
STORE_SECONDS = 120.0
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
# After this long without a failure the wait is short again.
STEADY_SECONDS = 600.0
# Instead of what one person alone may see, which is stored nowhere.
SUBSTITUTE = "I could not answer in time; please give the command again."
NOTICE = "I have an answer for you in {where}, but {reason}."
# The kinds of keys: of what a turn answers, and of what none does.
TURN, REPLY, KEY_DIGITS = "turn", "reply", 24


log = get_logger()


class Finding(NamedTuple):
    """The result of one check of `parley doctor`; `is_outage`: the platform can't be reached, and may be later."""

    level: Literal["ok", "warn", "fail"]
    text: str
    is_outage: bool = False


class Refused(Undeliverable):
    """The platform refuses this: {reason}."""

    def __init__(self, platform_code: str | int, reason: str) -> None:
        self.platform_code = platform_code
        super().__init__(reason=reason)


class ChatPlatform(ABC):
    """A chat platform. `receive` and `send` are required; every other method has a default that does nothing.

    One process listens or several do, every worker sends: all open the same class.
    """

    name: ClassVar[str]
    # Whether the platform itself sets and clears `connected`.
    reports_connection: ClassVar[bool] = False
    # How long the wait for a platform that does not answer grows.
    longest_wait: ClassVar[float] = LONGEST_WAIT
    # How a text mentions an account, by its `id` or that as a `whole`, and a place.
    account_mention: ClassVar[str] = "<@{id}>"
    place_mention: ClassVar[str] = "<#{place.channel}>"
    # What people type before the name of a command.
    command_sign: ClassVar[str] = "/"
    # The cells behind this door, of which `app` is the first one's; None: there are none.
    cells: "Cells | None" = None

    def __init__(self, settings: PlatformSettings, adapter: str | None = None) -> None:
        self.settings = settings
        # Of the agent's several accounts there each has its own.
        self.adapter = adapter or self.name
        # By which replies wait that it sends.
        self.adapters: Collection[str] = (self.adapter,)
        # Set while messages can arrive.
        self.connected = asyncio.Event()
        self._app: App | None = None

    @property
    def app(self) -> "App":
        """Return the app; raises `Unavailable` while the platform is not open."""
        if self._app is None:
            raise Unavailable(f"{self.adapter} is not open in this process.")
        return self._app

    async def open(self, app: "App") -> None:
        """Store the app's collaborators; no request is sent yet."""
        self._app = app

    async def aclose(self) -> None:
        """Close the connections."""
        self._app = None

    async def listen(self, app: "App") -> None:
        """Accept events until cancelled; a lost connection is made again."""
        # A platform that also sends was opened by the process, which closes it: sending goes on after listening ends.
        is_ours = self._app is None
        if is_ours:
            await self.open(app)
        if not self.reports_connection:
            self.connected.set()
        try:
            await stay_up(self.adapter, self.receive, app.clock.monotonic, longest_wait=self.longest_wait)
        finally:
            if is_ours:
                await self.aclose()

    async def accept(self, message: "IncomingMessage") -> Accepted:
        """Store a message; an event that comes again is stored only once."""
        return await retry_on_lost_db(lambda: self.app.inbox.accept(message), STORE_SECONDS)

    @abstractmethod
    async def receive(self) -> None:
        """Hold one connection and accept its messages until the connection is lost."""

    @abstractmethod
    async def send(self, reply: Reply) -> str | None:
        """Post a reply and return the platform's id of it; a reply that was already posted is not posted again.

        Raises `Unavailable` if a retry makes sense, `Undeliverable` if it does not.
        """

    def mention(self, account: str) -> str:
        """Return how a text mentions an account."""
        return self.account_mention.format(id=account.rpartition(":")[2], whole=account)

    def mention_place(self, place: Place) -> str:
        """Return how a text mentions a place."""
        return self.place_mention.format(place=place)

    def outage_scope(self, place: Place) -> str:  # most platforms are one
        """Return which part of the platform is away when it does not answer for this place; empty for all of it."""
        return ""

    async def show(self, turn: "LiveTurn") -> None:  # noqa: B027  # a part that a platform may leave out
        """Show an answer as live text until the turn ends."""

    async def find_headers(self, url: str, credential: str) -> Mapping[str, str]:  # for overrides
        """Return the headers for a file on the platform's own hosts; they must not be sent to any other host."""
        return {}

    def routes(self) -> Sequence["Route"]:
        """Return the routes that the web adapter serves for the platform."""
        return ()

    async def examine(self, settings: "Settings") -> AsyncGenerator[Finding]:
        """Yield the findings for `parley doctor`: those of the folder's `doctor.py`; the platform is not open."""
        name = f"{type(self).__module__.rpartition('.')[0]}.doctor"
        if find_spec(name) is not None:
            async for finding in import_module(name).examine(self, settings):
                yield finding


class DirectPlatform(ChatPlatform):
    """A platform where the agent and a person have direct messages.

    What one alone may see is said there, and why an answer can't be posted where it was asked for.
    """

    # Whether direct messages belong to a server.
    has_directs_of_servers: ClassVar[bool] = False
    # By the platform's code, why a message can't be posted in a place: what the asker has to know.
    reasons: ClassVar[Mapping[str | int, str]] = {}

    @abstractmethod
    async def post_reply(self, reply: Reply, key: str) -> str | None:
        """Post a reply and return the id of its last message; every attempt and its live text have the same key."""

    @abstractmethod
    async def withdraw(self, reply: Reply, key: str) -> None:
        """Remove the live message of a reply whose question was deleted."""

    @abstractmethod
    async def open_direct(self, account: str, server: str | None = None) -> str:
        """Return the channel of the direct messages with a person, on a server where they belong to one."""

    @abstractmethod
    async def post_notice(self, place: Place, text: str, key: str) -> None:
        """Post a sentence in direct messages."""

    async def send(self, reply: Reply) -> str | None:
        """Post a reply once and return the id of its last message; a refusal is told to the asker."""
        key = key_of(self.app.secrets, reply)
        server = self._find_server(reply.place)
        if reply.delivery.is_withdrawn:
            await self.withdraw(reply, key)
            return None

        async def open_direct(account: str) -> str:
            return await self.open_direct(account, server)

        reply = await reply.in_direct(open_direct, where=self.mention_place(reply.place), server=server)
        try:
            return await self.post_reply(reply, key)
        except Undeliverable as error:
            if isinstance(error, Refused) and error.platform_code in self.reasons:
                await self._notify(reply, key, self.reasons[error.platform_code])
            raise

    def _find_server(self, place: Place) -> str | None:
        return place.server if self.has_directs_of_servers else None

    async def _notify(self, reply: Reply, key: str, reason: str) -> None:
        """Tell the asker, at most once a day, why there is no reply in a place."""
        asker, place, server = reply.delivery.asker, reply.place, self._find_server(reply.place)
        if asker is None or place.is_direct:
            return
        parameters = {"platform": place.platform, "channel": place.channel, "asker": asker}
        async with self.app.database.statement() as session:
            if (await session.execute(statements.was_notified, parameters)).scalar_one():
                return
        text = NOTICE.format(where=self.mention_place(place), reason=reason)
        try:
            direct = Place(place.platform, server, await self.open_direct(asker, server), is_direct=True)
            await self.post_notice(direct, text, to_kind_key(self.app.secrets, "notice", key))
        except (Undeliverable, Unavailable) as error:
            # A person who accepts no direct messages can't be told.
            log.info("notice_not_sent", reply=reply.id, cause=str(error))


def key_of(secrets: Secrets, answer: "Reply | LiveTurn") -> str:
    """Return the key of an answer, by which a platform recognises it.

    The question is in it: a restored database counts its turns, and its replies, from earlier on. One message can get
    several replies without a turn.
    """
    message, place = answer.reply_to or "", answer.place
    if answer.turn_id or not isinstance(answer, Reply):
        return to_kind_key(secrets, TURN, place.key, message, answer.turn_id)
    message = message.rpartition(" ")[2] if message.startswith(DIRECT) else message
    # Of a command that was answered in vain before, the message is the same, and the number of the reply is not.
    text = answer.delivery.key_text or without_late_note(answer.content)
    return to_kind_key(secrets, REPLY, place.key, message or answer.id, text)


def is_substitute(reply: Reply) -> bool:
    """Return whether a reply stands for a secret one, which may have arrived after all and is then left as it is."""
    return not reply.turn_id and reply.content.endswith(SUBSTITUTE)


def to_kind_key(secrets: Secrets, kind: str, *identity: object) -> str:
    """Return the key of what this identity names among those of its kind."""
    return f"{kind}-{to_key(secrets, *identity)[:KEY_DIGITS]}"


async def stay_up(
    name: str,
    start: Callable[[], Awaitable[None]],
    now: Callable[[], float],
    *,
    longest_wait: float = LONGEST_WAIT,
) -> None:
    """Run `listen` again and again: an error is logged, and the wait before the next start grows.

    A client library that receives invalid input from its platform can raise any error, which must not end the process.
    """
    wait = FIRST_WAIT
    while True:
        began = now()
        try:
            await start()
        except Undeliverable as error:
            # A refused token or a missing permission: the message is enough, a traceback adds nothing.
            log.error("platform_refuses", platform=name, cause=str(error), again_in=LONGEST_WAIT)
            wait = LONGEST_WAIT
        except Unavailable as error:
            wait = min(wait, longest_wait)
            log.warning("platform_unreachable", platform=name, cause=str(error.__cause__ or error), again_in=wait)
        except Exception:
            # Whatever a library's parser raised; the next connection does not deliver the same input.
            log.exception("platform_lost", platform=name, again_in=wait)
        wait = FIRST_WAIT if now() - began > STEADY_SECONDS else wait
        await asyncio.sleep(wait)
        wait = min(LONGEST_WAIT, wait * 2)


async def isolated(
    work: Awaitable[object], event: str, *, unless: tuple[type[Exception], ...] = (), **ids: object
) -> None:
    """Do one piece of work of many; its failure is logged as `event`, and the others are done all the same.

    The errors `unless` are raised: those that would be every other one's, too.
    """
    try:
        await work
    except unless:
        raise
    except EventIdInUse:
        log.info("event_accepted_elsewhere", **ids)
    except Undeliverable as error:
        # What the platform refuses, as in `stay_up`.
        log.warning(event, cause=str(error), **ids)
    except Exception:
        # One message, row or channel can hold anything; it must not keep the others from being served.
        log.exception(event, **ids)


def name_holder() -> str:
    """Return a name for what lives in this process, by which a lease or a row is its own."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"


class BotAccount:
    """The row of one bot, created at its first use; its key is a hash of the token."""

    def __init__(self, database: Database, platform: str, token: str) -> None:
        self._database, self._platform = database, platform
        self._token_hash = hashlib.sha256(token.encode()).hexdigest()[:16]
        self._id: int | None = None

    async def find_id(self) -> int:
        """Return the id of the row."""
        if self._id is None:
            parameters = {"platform": self._platform, "token_hash": self._token_hash}
            async with self._database.statement() as session:
                self._id = int((await session.execute(statements.find_bot, parameters)).scalar_one())
        return self._id


class Running:
    """The `tasks` of listeners, which a shutdown waits for because they store messages, and background tasks."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[Any]] = set()
        self._beside: set[asyncio.Task[Any]] = set()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Count the current task while the block runs."""
        task = asyncio.current_task()
        if task is None or task in self.tasks:
            yield
            return
        self.tasks.add(task)
        try:
            yield
        finally:
            self.tasks.discard(task)

    def start(self, work: Any, name: str) -> Callable[[], bool]:
        """Run a background task, for which a shutdown does not wait; return what tells whether it has ended."""
        task = asyncio.create_task(work, name=name)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        return task.done

    async def settle(self, seconds: float) -> None:
        """Wait this many seconds for messages that are being stored; others are cancelled, and arrive again."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=seconds)
        tasks = [*self.tasks, *self._beside]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
