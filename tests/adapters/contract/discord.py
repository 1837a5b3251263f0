"""Discord, driven through its stand-in."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self

from shared.settings import Settings
from tests.adapters.contract.driver import STOP, Capability, File, Json, Message, Place, PlatformDriver, Post
from tests.adapters.discord.conftest import BETWEEN_STARTS, Scene, make_scene
from tests.standins.discord import CUT, SILENCE, DiscordStandIn, Fault, Interaction, Limits, Person, Sent
from tests.standins.discord.world import World
from tests.support.shared import Shared

PINGS = re.compile(r"<@!?(\d+)>|@(everyone|here)|<@(&\d+)>")


class Driver(PlatformDriver):
    """A server with a channel."""

    name = "discord"
    message_limit = 2000
    is_one_per_process = True
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability) - {Capability.TABLES}

    scene: Scene
    _standin: DiscordStandIn
    _world: World
    _people: dict[str, Person]

    @classmethod
    @asynccontextmanager
    async def running(cls, settings: Settings, shared: Shared) -> AsyncIterator[Self]:
        async with DiscordStandIn() as standin:
            standin.gateway.identify_seconds = BETWEEN_STARTS
            yield cls(make_scene(standin, settings), standin)

    @property
    def server(self) -> str:
        return str(self.scene.guild["id"])

    def direct(self, person: str) -> Place:
        return Place(self._people[person].dm()["id"])

    async def add_channel(self, name: str) -> Place:
        channel = self._world.add_channel(self.scene.guild["id"], name)
        await self._standin.gateway.dispatch("CHANNEL_CREATE", channel, self.scene.guild["id"])
        return Place(channel["id"])

    async def add_thread(self, name: str) -> Place:
        """Begin a thread, which is a channel of its own."""
        thread = self._world.add_thread(self.scene.general, name, self.scene.bob.id)
        await self._standin.gateway.dispatch("THREAD_CREATE", thread, self.scene.guild["id"])
        return Place(self.scene.general["id"], thread["id"])

    def conversation(self, message: Message) -> Place:
        """Return the same channel."""
        return message.place

    def is_direct(self, place: Place) -> bool:
        return "guild_id" not in self._channel(place)

    async def write(self, person: str, text: str, place: Place, *, files: Sequence[File], is_heard: bool) -> str:
        uploads = [(name, content, "text/plain") for name, content in files]
        message = await self._people[person].says(text, self._channel(place), files=uploads, is_heard=is_heard)
        return str(message["id"])

    async def deliver_again(self, message: Message) -> None:
        await self._standin.tell_message("MESSAGE_CREATE", self._written(message))

    async def rewrite(self, message: Message, text: str) -> None:
        await self._people[message.author].edits(self._written(message), text)

    async def delete(self, message: Message) -> None:
        await self._people[message.author].deletes(self._written(message))

    async def press(self, person: str, post: Post, label: str) -> None:
        await self._press(person, post, label)

    async def press_for_notice(self, person: str, post: Post, label: str) -> str:
        """Press a button whose response only this person sees."""
        click = await self._press(person, post, label)
        result = await click.answered()
        assert click.is_private
        return result

    async def _press(self, person: str, post: Post, label: str) -> Interaction:
        return await (await self._people[person].clicks(post.raw, label)).acked()

    async def command(self, person: str, name: str, place: Place) -> str:
        await self._standin.until(lambda: self._standin.commands)
        return await (await self._people[person].types(name, self._channel(place))).answered()

    def posts(self, place: Place) -> list[Post]:
        return [self._to_post(message, place) for message in self.scene.ann.reads(self._channel(place))]

    def _to_post(self, message: Json, place: Place) -> Post:
        rows = [row["components"] for row in message["components"]]
        pressable = [button for row in rows for button in row if not button.get("disabled")]
        buttons = tuple(str(button.get("label") or button["emoji"]["name"]) for button in pressable)
        files = tuple(
            (attachment["filename"], self._content(attachment["url"])) for attachment in message["attachments"]
        )
        question = message.get("message_reference", {}).get("message_id")
        is_final = STOP not in buttons
        return Post(message["id"], place, message["content"], buttons, files, is_final, question, message)

    def _content(self, url: str) -> bytes:
        return self._world.files[url.removeprefix(self._standin.cdn_base)]

    async def press_stop(self, person: str, place: Place) -> str:
        """Press it below the answer that grows, where everybody sees it."""
        (live_post,) = await self.wait(lambda: [post for post in self.posts(place) if STOP in post.buttons])
        return await self.press_for_notice(person, live_post, STOP)

    def notified(self, place: Place) -> set[str]:
        """Return whom the bot's requests have mentioned and were allowed to."""
        requests = self._standin.sent("", f"/channels/{place.thread or place.channel}/messages")
        return {name for request in requests if request.body for name in self._notified_by(request)}

    def _notified_by(self, request: Sent) -> set[str]:
        mentions = request.body.get("allowed_mentions") or {"parse": ["users", "roles", "everyone"]}
        names = {person.id: name for name, person in self._people.items()}
        targets: set[str] = set()
        for person, everyone, role in PINGS.findall(request.body.get("content") or ""):
            kind = "users" if person else "everyone" if everyone else "roles"
            if kind in mentions.get("parse", ()) or person in mentions.get("users", ()):
                targets.add(names.get(person, person) if person else "everyone" if everyone else role)
        return targets

    async def cut_connections(self) -> None:
        """Close the gateway's connections; a resumed session is sent what it has missed."""
        await self._standin.gateway.drop_all()

    async def limit_rate(self) -> None:
        """Take five messages in five seconds for each channel."""
        self._standin.limits = Limits(per_route=5, window=5.0)

    def refuse_posts(self, count: int, seconds: int = 1) -> None:
        self._standin.faults.append(Fault("POST", "/messages", 429, times=count, retry_after=float(seconds)))

    def forget_keys(self) -> None:
        self._standin.forget_nonces()

    def lose_confirmation(self) -> None:
        """Make the message and answer with a 500."""
        self._standin.faults.append(Fault("POST", "/messages", 500, after=True))

    def fall_silent(self, *, after: bool) -> None:
        self._standin.faults.append(Fault("POST", "/messages", SILENCE, after=after))

    async def until_silent(self, count: int) -> None:
        await self.wait(lambda: sum(sent.status == SILENCE for sent in self._standin.journal) >= count)

    def strain(self) -> None:
        self.slow_down(0.3)
        for method in ("POST", "GET"):
            self._standin.faults += [Fault(method, "/messages", 429), Fault(method, "/messages", CUT)]
        self._standin.faults.append(Fault("POST", "/messages", CUT, after=True))

    def rate_limited(self) -> int:
        return sum(request.status == 429 for request in self._standin.journal)

    def refusals(self) -> list[Any]:
        return self._standin.refusals

    def _channel(self, place: Place) -> Json:
        return self._world.channels[place.thread or place.channel]

    def _written(self, message: Message) -> Json:
        return self._world.messages[message.place.thread or message.place.channel][message.id]
