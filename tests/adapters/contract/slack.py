"""Slack, driven through its stand-in by Socket Mode."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self

from adapters.slack.install.manifest import build_manifest
from shared.settings import Settings
from tests.adapters.contract.driver import STOP, Capability, File, Json, Message, Place, PlatformDriver, Post
from tests.adapters.slack.conftest import Scene, make_scene
from tests.standins.slack import Limits, Person, SlackStandIn, pings, show
from tests.standins.slack.world import World
from tests.support.shared import Shared

ALL_MEMBERS = frozenset({"channel", "here", "everyone"})
SILENT_SECONDS = 600


class Driver(PlatformDriver):
    """A workspace with a channel, and an app that is made of the manifest."""

    name = "slack"
    message_limit = 12_000
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.TABLES, Capability.NOTICES})

    scene: Scene
    _standin: SlackStandIn
    _world: World
    _people: dict[str, Person]

    @classmethod
    @asynccontextmanager
    async def running(cls, settings: Settings, shared: Shared) -> AsyncIterator[Self]:
        async with SlackStandIn() as standin:
            scene = make_scene(standin, settings)
            await standin.make_app(build_manifest(scene.own, None))
            yield cls(scene, standin)

    @property
    def server(self) -> str:
        return self._standin.team_id

    def direct(self, person: str) -> Place:
        return Place(self._people[person].dm["id"])

    async def add_channel(self, name: str) -> Place:
        channel = self._world.add_channel(name)
        for person in self._people.values():
            person.joins(channel)
        return Place(channel["id"])

    async def add_thread(self, name: str) -> Place:
        """Write the message that a thread begins with."""
        root = await self.scene.bob.posts(self.scene.general, name)
        return Place(self.scene.general["id"], root["ts"])

    def conversation(self, message: Message) -> Place:
        """Return the thread of a question, which also a direct message begins."""
        return message.place if message.place.thread else Place(message.place.channel, message.id)

    def is_direct(self, place: Place) -> bool:
        return self._world.kind(self._channel(place)) == "im"

    async def write(self, person: str, text: str, place: Place, *, files: Sequence[File], is_heard: bool) -> str:
        channel, thread = self._channel(place), place.thread
        message = await self._people[person].posts(channel, text, thread_ts=thread, files=files, is_heard=is_heard)
        return str(message["ts"])

    async def deliver_again(self, message: Message) -> None:
        envelopes = await self.wait(
            lambda: [envelope for envelope in self._standin.journal.envelopes if _carries(envelope, message)]
        )
        await self._standin.delivery.give("events_api", envelopes[0].payload)

    async def rewrite(self, message: Message, text: str) -> None:
        await self._people[message.author].edits(self._channel(message.place), message.id, text)

    async def delete(self, message: Message) -> None:
        await self._people[message.author].deletes(self._channel(message.place), message.id)

    async def press(self, person: str, post: Post, label: str) -> None:
        click = await self._people[person].presses(self._channel(post.place), post.raw, label)
        assert click.is_acked

    async def press_for_notice(self, person: str, post: Post, label: str) -> str:
        """Press a button whose response only this person sees."""
        click = await self._people[person].presses(self._channel(post.place), post.raw, label)
        (result,) = await click.answered()
        assert (click.is_acked, click.responses[0]["response_type"]) == (True, "ephemeral")
        return result

    async def command(self, person: str, name: str, place: Place) -> str:
        interaction = await self._people[person].slash(self._channel(place), "/parley", name)
        return (await interaction.answered())[-1]

    def posts(self, place: Place) -> list[Post]:
        messages = self._world.messages[place.channel].values()
        thread_messages = [message for message in messages if place.thread in (None, message.get("thread_ts"))]
        return [self._to_post(message, place.channel) for message in thread_messages if "bot_id" in message]

    def _to_post(self, message: Json, channel: str) -> Post:
        rows = [block["elements"] for block in message.get("blocks", ()) if block["type"] == "actions"]
        buttons = tuple(str(button["text"]["text"]) for row in rows for button in row)
        files = tuple((file["name"], self._world.contents[file["id"]]) for file in message.get("files", ()))
        is_final = not message.get("is_streaming") and STOP not in buttons
        thread = message.get("thread_ts")
        text = show(self._world, {**message, "files": []})
        return Post(message["ts"], Place(channel, thread), text, buttons, files, is_final, thread, message)

    async def press_stop(self, person: str, place: Place) -> str:
        """Press Slack's own, beside the status, which ends for whoever presses it; the app says nothing."""
        sessions = self._world.sessions
        ((_, thread),) = await self.wait(
            lambda: [key for key, state in sessions.items() if key[0] == place.channel and state["statuses"]]
        )
        session = sessions[place.channel, thread]
        session["status"] = "processing"
        await self._people[person].stops_session(self._channel(place), thread)
        await self.wait(lambda: session["status"] == "active")
        return ""

    def notified(self, place: Place) -> set[str]:
        """Return whom the app's messages call."""
        names = {person.id: name for name, person in self._people.items()}
        user_ids = {user_id for post in self.posts(place) for user_id in pings(post.raw)}
        return {"everyone" if user_id in ALL_MEMBERS else names.get(user_id, user_id) for user_id in user_ids}

    async def cut_connections(self) -> None:
        """Break the sockets off; events that nobody takes are sent again."""
        self._standin.delivery.retry_delays = (0.5,) * 60
        self._standin.socket.cut_all()
        await self.until_disconnected()

    async def limit_rate(self) -> None:
        """Take ten messages in ten seconds for each channel, and a few calls a minute of other methods."""
        self._standin.limits = Limits(factor=1)

    def refuse_posts(self, count: int, seconds: int = 1) -> None:
        for method in ("chat.postMessage", "chat.startStream"):
            self._standin.fail(method, retry_after=seconds, times=count)

    def forget_keys(self) -> None:
        """Do nothing: Slack recognises no message that is posted again."""

    def lose_confirmation(self) -> None:
        """Make the message and break the connection before the answer."""
        self._standin.fail("chat.postMessage", is_lost=True)

    def fall_silent(self, *, after: bool) -> None:
        self._standin.fail("chat.postMessage", seconds=SILENT_SECONDS, status=200 if after else 503)

    async def until_silent(self, count: int) -> None:
        await self.wait(lambda: len(self._standin.calls("chat.postMessage")) >= count)

    def strain(self) -> None:
        self.slow_down(0.3)
        for method in ("chat.postMessage", "conversations.history"):
            self._standin.fail(method, retry_after=1)
            self._standin.fail(method, is_cut=True)
        self._standin.fail("chat.postMessage", is_lost=True)

    def rate_limited(self) -> int:
        return sum(call.status == 429 for call in self._standin.calls())

    def refusals(self) -> list[Any]:
        return [refusal for refusal in self.scene.refusals() if refusal[1] != "connection_cut"]

    def _channel(self, place: Place) -> Json:
        return self._world.channels[place.channel]


def _carries(envelope: Any, message: Message) -> bool:
    return bool(envelope.payload.get("event", {}).get("ts") == message.id)
