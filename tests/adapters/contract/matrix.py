"""Matrix, driven at a real homeserver behind a proxy that can be told to misbehave."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self
from uuid import uuid4

from adapters.base import TURN
from adapters.chat.reactions import DIGITS, STOP_HINT, VARIANT
from adapters.matrix.platform import KEY
from shared.settings import Settings
from tests.adapters.contract.driver import AGAIN, STOP, Capability, File, Json, Message, Place, PlatformDriver, Post
from tests.adapters.matrix.conftest import Scene, made_scene
from tests.support.homeserver_proxy import CUT, HISTORY, SENDING, SILENCE, Fault, HomeserverProxy
from tests.support.shared import Shared
from tests.support.synapse import Person
from tests.support.worlds import World

ACCOUNT = re.compile(r"@[\w-]+:matrix\.test")
ANSWER_EDITED = "Answer the edited message"
PLAIN = (AGAIN, "👍", "👎", "🛑")
ORDER = [emoji.replace(VARIANT, "") for emoji in (*PLAIN, "✅", "❌", *DIGITS)]
MEANINGS = "SELECT message AS event_id, emoji FROM chat_buttons, jsonb_object_keys(buttons) AS emoji"
LOOK_MS = 300


class Driver(PlatformDriver):
    """Rooms of a space. What the agent's reactions, presses and commands are answered with is not an answer."""

    name = "matrix"
    message_limit = 8000
    command_sign = "!"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability) - {
        Capability.FILES_IN_ANSWER,
        Capability.NOTICES,
    }

    scene: Scene
    _standin: HomeserverProxy
    _world: World
    _people: dict[str, Person]

    def __init__(self, scene: Scene) -> None:
        self._channels = 1
        self._files: dict[str, bytes] = {}
        self._meanings: dict[str, set[str]] = {}
        # What was written, as those who are in all rooms see it.
        self._screen = Person(scene.homeserver, scene.agent.id, scene.agent.token, scene.agent.mark)
        super().__init__(scene, scene.proxy, scene.world)

    @classmethod
    @asynccontextmanager
    async def running(cls, settings: Settings, shared: Shared) -> AsyncIterator[Self]:
        async with made_scene(shared, settings) as scene:
            scene.general["id"] = await scene.world.make_channel("general", 0)
            driver = cls(scene)
            yield driver
            await scene.world.limit_rate(None)

    def environment(self) -> dict[str, str]:
        """Return the platform's settings, and a secret: another test's transactions are not this one's."""
        return self.scene.environment() | {"SECRET_KEY": uuid4().hex}

    @property
    def server(self) -> str:
        return self._world.space

    def direct(self, person: str) -> Place:
        return Place(self._world.direct if self._people[person] is self.scene.ann else self._world.bobs_direct)

    def mention(self, person: str) -> str:
        return self._people[person].id

    async def add_channel(self, name: str) -> Place:
        self._channels += 1
        return Place(await self._world.make_channel(name, self._channels - 1))

    async def add_thread(self, name: str) -> Place:
        """Write the message that a thread begins with."""
        return Place(self.channel.channel, await self.scene.bob.says(self.channel.channel, name))

    def conversation(self, message: Message) -> Place:
        """Return the same room."""
        return message.place

    def is_direct(self, place: Place) -> bool:
        return place.channel in (self._world.direct, self._world.bobs_direct)

    def _addressed(self, text: str, place: Place, *, calls: bool) -> str:
        return f"{self.scene.agent.id}: {text}" if calls and not self.is_direct(place) else text

    async def write(self, person: str, text: str, place: Place, *, files: Sequence[File], is_heard: bool) -> str:
        author = self._people[person]
        self._standin.withholds = self._standin.withholds or not is_heard
        content = to_mentions(text)
        for name, data in files:
            url = await self.scene.homeserver.upload(author, data, name)
            facts = {"mimetype": "text/plain", "size": len(data)}
            content |= {"msgtype": "m.file", "filename": name, "url": url, "info": facts}
        if place.thread:
            content["m.relates_to"] = {"rel_type": "m.thread", "event_id": place.thread}
        return await author.says(place.channel, text, **content)

    async def deliver_again(self, message: Message) -> None:
        await self.scene.until_taken(message.id)
        await self._look()
        await self._standin.repeat(next(event for event in self._screen.events if event["event_id"] == message.id))

    async def rewrite(self, message: Message, text: str) -> None:
        new = {"msgtype": "m.text", "body": text} | to_mentions(text)
        content = {"m.new_content": new, "m.relates_to": {"rel_type": "m.replace", "event_id": message.id}}
        await self._people[message.author].says(message.place.channel, f"* {text}", **content)

    async def delete(self, message: Message) -> None:
        path = ("rooms", message.place.channel, "redact", message.id, uuid4().hex)
        await self._people[message.author].call("PUT", *path, body={})

    async def press(self, person: str, post: Post, label: str) -> None:
        """React, and return once the agent is done with the reaction."""
        meanings = self._meanings.get(post.id, ())
        emoji = next((emoji for emoji in meanings if self._label(post.id, emoji) == label), label)
        relation = {"rel_type": "m.annotation", "event_id": post.id, "key": emoji}
        reaction = await self._people[person].sends(post.place.channel, "m.reaction", {"m.relates_to": relation})
        await self.scene.until_taken(reaction)
        await self._look()

    async def press_for_notice(self, person: str, post: Post, label: str) -> str:
        """Press a button; what the agent says then everybody sees."""
        before = len(self._notices())
        await self.press(person, post, label)
        return "".join(self._notices()[before:])

    async def command(self, person: str, name: str, place: Place) -> str:
        """Write a command; what is for one person alone is answered in the direct room, and names the other one."""
        before = len(self._notices())
        message = await self.say(person, f"!{name}", place)
        await self.scene.until_taken(message.id)
        await self._look()
        (answer,) = self._notices()[before:]
        return answer.removeprefix(f"About https://matrix.to/#/{place.channel}\n\n")

    def _notices(self) -> list[str]:
        own = [event for event in self._screen.events if event["sender"] == self.scene.agent.id and is_message(event)]
        return [
            event["content"]["body"] for event in own if not ("m.new_content" in event["content"] or is_answer(event))
        ]

    def posts(self, place: Place) -> list[Post]:
        events = self._screen.events
        gone = {event.get("redacts") for event in events if event["type"] == "m.room.redaction"}
        posts = [self._to_post(event) for event in events if self._is_post(event, place.channel)]
        return [post for post in posts if post.id not in gone and place.thread in (None, post.place.thread)]

    def said(self, place: Place) -> list[str]:
        own = self._screen.of(self.scene.agent.id, place.channel)
        return [event["content"]["body"] for event in own]

    def _is_post(self, event: Json, room: str) -> bool:
        is_own = is_message(event) and event["sender"] == self.scene.agent.id and event["room_id"] == room
        return is_own and is_answer(event) and "m.new_content" not in event["content"]

    def _to_post(self, event: Json) -> Post:
        content, event_id = event["content"], event["event_id"]
        shown = self._edited(event_id) or content
        relation = content.get("m.relates_to", {})
        place = Place(event["room_id"], relation.get("event_id"))
        is_file = "url" in content
        files = ((content["filename"], self._files[content["url"]]),) if is_file else ()
        text = "" if is_file else shown["body"]
        meanings = sorted(self._meanings.get(event_id, ()), key=ORDER.index)
        buttons = tuple(self._label(event_id, emoji) for emoji in meanings)
        question = to_question(content) or place.thread
        return Post(event_id, place, text, buttons, files, not text.endswith(STOP_HINT), question, shown)

    def _edited(self, event_id: str) -> Json | None:
        contents = [event["content"] for event in self._screen.events if "m.new_content" in event["content"]]
        edits = [content for content in contents if content["m.relates_to"]["event_id"] == event_id]
        new: Json | None = edits[-1]["m.new_content"] if edits else None
        return new

    def _label(self, event_id: str, emoji: str) -> str:
        """Return the words beside an emoji; most have none, and one that the agent gives is the button of an edit."""
        content = next(event["content"] for event in self._screen.events if event["event_id"] == event_id)
        lines = (self._edited(event_id) or content)["body"].replace(VARIANT, "").splitlines()
        words = [line.removeprefix(f"{emoji} ").strip() for line in lines if line.startswith(f"{emoji} ")]
        if emoji == AGAIN and self._offers(event_id, emoji):
            return ANSWER_EDITED
        return STOP if emoji == "🛑" else words[-1] if words else emoji

    def _offers(self, event_id: str, emoji: str) -> bool:
        relation = {"rel_type": "m.annotation", "event_id": event_id, "key": emoji}
        own = [event["content"] for event in self._screen.events if event["sender"] == self.scene.agent.id]
        return any(content.get("m.relates_to") == relation for content in own)

    async def press_stop(self, person: str, place: Place) -> str:
        """React to the answer that grows."""
        (live_post,) = await self.wait(lambda: [post for post in self.posts(place) if STOP in post.buttons])
        return await self.press_for_notice(person, live_post, STOP)

    def notified(self, place: Place) -> set[str]:
        """Return whom the agent's messages mention as Matrix's clients read it, edits included."""
        names = {person.id: name for name, person in self._people.items()}
        events = [event for event in self._screen.events if is_message(event)]
        own = [event for event in events if event["sender"] == self.scene.agent.id]
        mentions = [event["content"]["m.mentions"] for event in own if event["room_id"] == place.channel]
        accounts = {names.get(account, account) for mention in mentions for account in mention.get("user_ids", ())}
        return accounts | {"everyone" for mention in mentions if mention.get("room")}

    async def wait(self, happened: Callable[[], Any], seconds: float = 90) -> Any:
        """Look again and again: the homeserver tells of messages, but not of what a reaction means."""
        await self._look()
        async with asyncio.timeout(seconds):
            while not (result := happened()):
                await self._look(LOOK_MS)
        return result

    async def until_delivered(self, count: int = 1) -> None:
        await super().until_delivered(count)
        await self._look()

    async def until_settled(self) -> None:
        """Return once the mark is stored up to which all is stored."""
        await self.scene.until_value(1, "SELECT count(*) FROM chat_listeners WHERE mark IS NOT NULL")

    async def _look(self, milliseconds: int = 0) -> None:
        await self._screen.looks(milliseconds)
        for event in self._screen.events:
            url = event["content"].get("url")
            if event["sender"] == self.scene.agent.id and url and url not in self._files:
                self._files[url] = await self.scene.homeserver.download(self.scene.agent, url)
        if hasattr(self.scene, "parley"):
            self._meanings = {}
            for row in await self.scene.sql(MEANINGS):
                self._meanings.setdefault(row.event_id, set()).add(row.emoji)

    async def cut_connections(self) -> None:
        """Break them off; what the homeserver has not told it tells when it is asked again."""
        self._standin.cut_all()

    async def limit_rate(self) -> None:
        """Take ten messages at once and ten a second: Synapse takes ten, and then one in five seconds."""
        await self._world.limit_rate(10)

    def refuse_posts(self, count: int, seconds: int = 1) -> None:
        self._standin.faults.append(Fault("PUT", SENDING, 429, times=count, retry_after_ms=seconds * 1000))

    def forget_keys(self) -> None:
        self._standin.forget_transactions()

    def lose_confirmation(self) -> None:
        """Make the message and answer with a 500."""
        self._standin.faults.append(Fault("PUT", SENDING, 500, after=True))

    def fall_silent(self, *, after: bool) -> None:
        self._standin.faults.append(Fault("PUT", SENDING, SILENCE, after=after))

    async def until_silent(self, count: int) -> None:
        await self._standin.until_silent(count)

    def strain(self) -> None:
        self.slow_down(0.3)
        for method, path in (("PUT", SENDING), ("GET", HISTORY)):
            self._standin.faults += [Fault(method, path, 429), Fault(method, path, CUT)]
        self._standin.faults.append(Fault("PUT", SENDING, CUT, after=True))

    def rate_limited(self) -> int:
        return sum(call.status == 429 for call in self._standin.journal)

    def refusals(self) -> list[Any]:
        return [call for call in self._standin.journal if 400 <= call.status < 500 and call.status != 429]


def to_mentions(text: str) -> Json:
    """Return who is mentioned, as clients declare it."""
    return {"m.mentions": {"user_ids": ACCOUNT.findall(text)}}


def to_question(content: Json) -> str | None:
    """Return the message that this one is a reply to."""
    event_id: str | None = content.get("m.relates_to", {}).get("m.in_reply_to", {}).get("event_id")
    return event_id


def is_message(event: Json) -> bool:
    """Tell whether an event is a message or an edit, and not redacted."""
    return event["type"] == "m.room.message" and "body" in event["content"]


def is_answer(event: Json) -> bool:
    """Tell whether a message is what a turn answers, and not what a command or a press is answered with."""
    return str(event["content"].get(KEY)).startswith(TURN)
