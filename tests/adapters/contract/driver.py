"""What a story needs of a platform: to act as a person there, to see what is visible, and to make things go wrong."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, ClassVar, Self

from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.chat_scene import ended
from tests.support.shared import Shared

Json = dict[str, Any]
File = tuple[str, bytes]
# Both are members of the shared channel.
ANN, BOB = "Ann", "Bob"
STOP = "Stop"
AGAIN = "🔄"
RETRY_FAILED = "UPDATE outbox SET claimed_until = now() WHERE status <> 'delivered' AND error IS NOT NULL"
OPEN_REPLIES = "SELECT count(*) FROM outbox WHERE status <> 'delivered' AND error IS NULL"


class Capability(StrEnum):
    """What not every platform can do, in the words of `docs/platform-differences.md`."""

    QUOTES_QUESTION = "an answer refers to its question"
    STOP_ON_ANSWER = "the Stop button stands under the growing answer"
    FILES_IN_ANSWER = "files are in the message of the answer"
    TABLES = "tables"
    COMMANDS_IN_THREADS = "commands in threads"
    CATCH_UP_ANYWHERE = "catch-up where it has never spoken"
    NOTICES = "what a press is answered with is seen by that person alone"


@dataclass(frozen=True, slots=True)
class Place:
    """Where messages are written: a channel or direct conversation, or a thread in one."""

    channel: str
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    place: Place
    author: str


@dataclass(frozen=True, slots=True)
class Post:
    """A message of the agent as a person sees it now; `question` is the message that it refers to, or its thread's."""

    id: str
    place: Place
    text: str
    buttons: tuple[str, ...]
    files: tuple[File, ...]
    is_final: bool
    question: str | None
    raw: Json = field(repr=False, compare=False)


class PlatformDriver(ABC):
    """One platform with its stand-in; people are named, and the agent is called in channels by a mention."""

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]]
    message_limit: ClassVar[int]
    # How an answer names commands.
    command_sign: ClassVar[str] = "/"
    # Whether the platform's library knows one server for a whole process.
    is_one_per_process: ClassVar[bool] = False
    # Whether failed deliveries are tried again at once, and not some seconds later.
    hurries = False

    def __init__(self, scene: Any, standin: Any, world: Any = None) -> None:
        self.scene, self._standin, self._world = scene, standin, world or standin.world
        self._people = {ANN: scene.ann, BOB: scene.bob}

    @classmethod
    @abstractmethod
    def running(cls, settings: Settings, shared: Shared) -> AbstractAsyncContextManager[Self]:
        """Run the stand-in for the block, with both people and one channel; Parley is still closed."""

    def environment(self) -> dict[str, str]:
        """Return the platform's settings for a process of its own."""
        return dict(self._standin.environment())

    @abstractmethod
    def direct(self, person: str) -> Place:
        """Return the direct conversation of a person with the agent."""

    def mention(self, person: str) -> str:
        """Return how a person is mentioned in a text."""
        return f"<@{self._people[person].id}>"

    @property
    @abstractmethod
    def server(self) -> str:
        """Return the platform's id of the server or workspace."""

    @property
    def channel(self) -> Place:
        return Place(self.scene.general["id"])

    @abstractmethod
    async def add_channel(self, name: str) -> Place:
        """Make another channel with both people and the agent in it."""

    @abstractmethod
    async def add_thread(self, name: str) -> Place:
        """Begin a thread in the shared channel, without the agent."""

    @abstractmethod
    def conversation(self, message: Message) -> Place:
        """Return where the conversation that a question has begun goes on."""

    async def say(
        self,
        person: str,
        text: str,
        place: Place,
        *,
        calls: bool = True,
        files: Sequence[File] = (),
        is_delivered: bool = True,
    ) -> Message:
        """Write a message; in channels it mentions the agent if it `calls`. Undelivered ones are sent to nobody."""
        content = self._addressed(text, place, calls=calls)
        return Message(await self.write(person, content, place, files=files, is_heard=is_delivered), place, person)

    def _addressed(self, text: str, place: Place, *, calls: bool) -> str:
        return f"<@{self._standin.bot_user_id}> {text}" if calls and not self.is_direct(place) else text

    @abstractmethod
    def is_direct(self, place: Place) -> bool:
        """Tell whether a place is a direct conversation."""

    @abstractmethod
    async def write(self, person: str, text: str, place: Place, *, files: Sequence[File], is_heard: bool) -> str:
        """Write exactly this text, and return the id of the message."""

    @abstractmethod
    async def deliver_again(self, message: Message) -> None:
        """Send the event of a message a second time."""

    async def edit(self, message: Message, text: str, *, calls: bool = True) -> None:
        """Change a message, as its author."""
        await self.rewrite(message, self._addressed(text, message.place, calls=calls))

    @abstractmethod
    async def rewrite(self, message: Message, text: str) -> None:
        """Change a message to exactly this text, as its author."""

    @abstractmethod
    async def delete(self, message: Message) -> None:
        """Delete a message, as its author."""

    @abstractmethod
    async def press(self, person: str, post: Post, label: str) -> None:
        """Press a button and return once it is acknowledged, within the 3 s that platforms wait."""

    @abstractmethod
    async def press_for_notice(self, person: str, post: Post, label: str) -> str:
        """Press a button and return what this person is told, which may be nothing where others see it too."""

    @abstractmethod
    async def command(self, person: str, name: str, place: Place) -> str:
        """Give one of the platform's own commands and return its answer."""

    @abstractmethod
    def posts(self, place: Place) -> list[Post]:
        """Return the agent's messages that all can see in a place, its threads included, the oldest first."""

    def said(self, place: Place) -> list[str]:
        """Return what all of the agent's messages in a place say, and what commands are answered with is among them."""
        return [post.text for post in self.posts(place)]

    @abstractmethod
    async def press_stop(self, person: str, place: Place) -> str:
        """Press the Stop button of a running answer once it is there; return what the app tells this person then."""

    @abstractmethod
    def notified(self, place: Place) -> set[str]:
        """Return who was notified by the agent's messages in a place: people by name, or `everyone`."""

    async def wait(self, happened: Callable[[], Any], seconds: float = 90) -> Any:
        """Return what `happened` gives as soon as that is true; it is asked again whenever the stand-in changes."""
        return await self._standin.until(happened, seconds)

    async def until_connected(self) -> None:
        """Return once an adapter listens."""
        await self.scene.connections.until()

    async def until_disconnected(self) -> None:
        """Return once no adapter listens."""
        await self.scene.connections.until_gone()

    @abstractmethod
    async def cut_connections(self) -> None:
        """Break every connection off; what happens meanwhile is delivered later, as the platform does it."""

    def slow_down(self, seconds: float) -> None:
        """Let every answer of the platform's API take so long."""
        self._standin.latency = seconds

    @abstractmethod
    async def limit_rate(self) -> None:
        """Take only so many requests as the platform itself does; others are answered with a 429."""

    @abstractmethod
    def refuse_posts(self, count: int, seconds: int = 1) -> None:
        """Answer the next messages of the agent with a 429, and ask it to wait for so long."""

    def allow_posts(self) -> None:
        """Take away what `refuse_posts` has left."""
        self._standin.faults.clear()

    @abstractmethod
    def forget_keys(self) -> None:
        """Forget by which keys the platform recognises messages that are posted again, as after some minutes."""

    @abstractmethod
    def lose_confirmation(self) -> None:
        """Show the next message of the agent, and answer as if it had failed."""

    @abstractmethod
    def fall_silent(self, *, after: bool) -> None:
        """Give no answer to the next message of the agent; with `after`, it is shown."""

    @abstractmethod
    async def until_silent(self, count: int) -> None:
        """Return once so many messages of the agent have been met with silence."""

    @abstractmethod
    def strain(self) -> None:
        """Answer after 300 ms; a 429, then a connection cut before and one cut after the request took effect.

        These happen to the next messages of the agent; the first two also to the next readings of a history.
        """

    @abstractmethod
    def rate_limited(self) -> int:
        """Return how many requests were answered with a 429."""

    @abstractmethod
    def refusals(self) -> list[Any]:
        """Return the requests that were refused for another reason than their number."""

    @asynccontextmanager
    async def open(
        self, address: Address, model: OpenAIStub, *, listens: bool = True, works: bool = True
    ) -> AsyncIterator[None]:
        """Open Parley: with an adapter that listens, a worker, or both."""
        async with self.scene.opened(address, model, listens=listens, works=works):
            hurrying = asyncio.create_task(self.hurry_deliveries()) if self.hurries and works else None
            try:
                yield
            finally:
                if hurrying is not None:
                    await ended(hurrying)
        await self.until_disconnected()

    def texts(self, place: Place) -> list[str]:
        """Return what the agent's finished messages in a place say."""
        return [post.text for post in self.posts(place) if post.is_final]

    async def hear(self, place: Place, count: int = 1) -> list[str]:
        """Return what the agent's messages in a place say, as soon as so many of them are finished."""
        await self.wait(lambda: len(self.texts(place)) >= count)
        return self.texts(place)

    async def until_delivered(self, count: int = 1) -> None:
        """Return once so many replies are delivered; one whose delivery failed is tried again at once, not later."""
        async with asyncio.timeout(60):
            while await self.scene.value("SELECT count(*) FROM outbox WHERE status = 'delivered'") < count:
                await self.scene.until_value(0, OPEN_REPLIES)
                await self.scene.sql(RETRY_FAILED)

    async def until_settled(self) -> None:
        """Return once it is stored how far the platform was listened to."""
        await self.scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")

    async def hurry_deliveries(self) -> None:
        """Let failed deliveries be tried again at once, until cancelled."""
        while True:
            await self.scene.sql(RETRY_FAILED)
            await asyncio.sleep(0.3)


def drivers() -> list[type[PlatformDriver]]:
    """Return the drivers of this folder."""
    names = [module.name for module in iter_modules([str(Path(__file__).parent)])]
    modules = [import_module(f"{__package__}.{name}") for name in names if is_driver(name)]
    return [module.Driver for module in modules]


def is_driver(name: str) -> bool:
    """Tell whether a module of this folder drives a platform."""
    return name not in {"driver", "conftest"} and not name.startswith("test_")
