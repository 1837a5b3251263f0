"""The way of an answer on a platform that posts messages under keys and edits them: once, however often it is tried.

Such a platform says how one message is posted, edited, removed and found again; parts, live text, files and buttons
come from here.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from adapters.base import DirectPlatform, is_substitute, key_of, to_kind_key
from adapters.chat.buttons import CHOICE, RUN, AnswerButtons, Button, ShownButton, TurnButtons, buttons_below
from adapters.chat.clicks import STOPPING, THANKS, Click, accept_click
from adapters.chat.intake import to_destination
from adapters.chat.live import show_live
from adapters.chat.parts import Post, Upload, collect, last_part, links_to, to_parts
from adapters.chat.reactions import STOP_EMOJI, STOP_HINT, Reactions, list_words, to_emoji, without_list
from agent.commands import name_commands
from shared.errors import Undeliverable
from shared.log import get_logger
from shared.messages import IncomingMessage, Place
from shared.tasks import run_on_text

if TYPE_CHECKING:
    from agent.live.announcer import LiveTurn
    from agent.queue.outbox import Reply

ROOM_FOR_HINT = 100
NOT_TAKEN = "this file is not taken here"

log = get_logger()


class Limits(Struct, frozen=True):
    """The most characters of a message and messages of an answer; of a longer one, which is a file, what is shown."""

    message_chars: int
    parts: int
    preview_chars: int
    file_bytes: int


class PostingPlatform(DirectPlatform):
    """A platform whose messages have keys, can be edited, and get reactions."""

    limits: ClassVar[Limits]
    # One that does not answer is asked so often for little; whoever writes is answered soon after it is back.
    longest_wait: ClassVar[float] = 15.0
    # How long what was left out in a place is asked for, while the platform answers elsewhere.
    patience: ClassVar[float] = 600.0

    @abstractmethod
    async def post(self, place: Place, post: Post) -> str:
        """Post a message and return its id; of one key the platform makes one message, at least for some time."""

    @abstractmethod
    async def edit(self, place: Place, message_id: str, post: Post) -> None:
        """Replace a message; the key is that of the edit."""

    @abstractmethod
    async def remove(self, place: Place, message_id: str, post: Post) -> None:
        """Remove a message; the key is that of the removal."""

    @abstractmethod
    async def list_posted(self, place: Place) -> Mapping[str, str]:
        """Return the ids of the agent's latest messages in a place by their keys."""

    @abstractmethod
    async def upload(self, place: Place, upload: Upload, post: Post) -> None:
        """Post a file; of one that is refused the text is posted instead, which names it."""

    @abstractmethod
    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message, for people to press."""

    @abstractmethod
    async def type(self, place: Place) -> None:
        """Show that the agent is writing."""

    def to_key(self, kind: str, *identity: object) -> str:
        """Return the key of what this identity names among those of its kind."""
        return to_kind_key(self.app.secrets, kind, *identity)

    @property
    def reactions(self) -> Reactions:
        """Return what reactions to the agent's messages mean."""
        return Reactions(self.app.database, self.name)

    async def withdraw(self, reply: "Reply", key: str) -> None:
        """Remove the live message, whose id may not have come back."""
        live = reply.delivery.live_message_id or (await self.list_posted(reply.place)).get(f"{key}-0")
        if live is not None:
            await self.remove(reply.place, live, Post("", f"{key}-withdrawn", check=reply.check_claim))

    async def post_reply(self, reply: "Reply", key: str) -> str:
        """Post the parts, then the files; what is there already is left, and the live message is changed."""
        live = reply.delivery.live_message_id
        place, delivery, last = reply.place, reply.delivery, ""
        posted = await self.list_posted(place) if reply.was_tried or delivery.was_resumed else {}
        buttons = to_emoji(buttons_below(reply, self.app.clock.now()))
        limits, words = self.limits, list_words(buttons)
        uploads, others = await collect(self.app, reply.files, limits.file_bytes, allows_empty=False)
        # Two blanks keep the lines of choices apart.
        choices = ["", "  \n".join(words)] if words else []
        whole = "\n".join([self._to_text(reply, buttons), *links_to(others), *choices])
        sizes = {"limit": limits.message_chars, "most": limits.parts, "preview": limits.preview_chars}
        draft = await run_on_text(lambda markup: to_parts(reply.content, markup, **sizes), whole)
        for index, text in enumerate(draft.parts):
            reply_to = reply.reply_to if index == 0 else None
            options: dict[str, Any] = {"allows_mentions": delivery.allows_mentions, "check": reply.check_claim}
            post = Post(text, f"{key}-{index}", reply_to, **options)
            # The live message of an attempt that died before it noted the id is among the posted ones.
            earlier = (live if index == 0 else None) or posted.get(post.key)
            if earlier is not None and index == 0 and not is_substitute(reply):
                await self.edit(place, earlier, replace(post, key=f"{key}-final"))
            last = earlier or await self.post(place, post)
        links = {file.filename: file.url for file in reply.files}
        for index, upload in enumerate([*filter(None, [draft.file]), *uploads]):
            line = f"{upload.filename}: {links.get(upload.filename, NOT_TAKEN)}"
            reply_to = reply.reply_to if place.thread else None
            post = Post(line, f"{key}-file-{index}", reply_to, check=reply.check_claim)
            if post.key in posted:
                continue
            try:
                await self.upload(place, upload, post)
            except Undeliverable as error:
                log.warning("file_refused", reply=reply.id, cause=str(error))
                await self.post(place, post)
        await self.offer(place, last, buttons)
        return last

    def _to_text(self, reply: "Reply", buttons: Mapping[str, ShownButton]) -> str:
        content = without_list(reply.content.strip(), buttons)
        # A model may speak of a path of that name.
        is_models = reply.turn_id and reply.delivery.status not in ("refused", "failed")
        return content if is_models else name_commands(self.name, content, self.command_sign)

    async def post_notice(self, place: Place, text: str, key: str) -> None:
        """Post a sentence."""
        await self.post(place, Post(text, key))

    async def show(self, turn: "LiveTurn") -> None:
        """Show an answer as live text."""
        await show_live(turn, _LiveMessage(self, turn))

    async def offer(self, place: Place, message_id: str, buttons: Mapping[str, ShownButton]) -> None:
        """Note what reactions to a message mean, and give those that are choices, to be pressed."""
        if buttons:
            await self.reactions.store(place, message_id, buttons)
        for emoji, shown in buttons.items():
            if shown.kind != "plain":
                await self.react(place, message_id, emoji)

    async def offer_again(self, answer: Any, buttons: AnswerButtons) -> None:
        """Offer below an answer to make it again; `answer` is its row of `outbox`."""
        if answer.platform_message_id:
            channel, thread = answer.platform_channel_id, answer.platform_thread_id
            place = Place(self.name, None, channel, thread=thread)
            await self.offer(place, answer.platform_message_id, to_emoji(buttons))


class _LiveMessage:
    """The message in which one answer grows, under the key that the final text will use."""

    def __init__(self, platform: PostingPlatform, turn: "LiveTurn") -> None:
        self._platform, self._turn, self._edits = platform, turn, 0

    async def type(self) -> None:
        await self._platform.type(self._turn.place)

    async def post(self, text: str) -> str:
        turn, place, platform = self._turn, self._turn.place, self._platform
        post = Post(self._draw(text), f"{key_of(platform.app.secrets, turn)}-0", turn.reply_to)
        message_id = await platform.post(place, post)
        stop = TurnButtons(turn.turn_id, turn.asker, platform.app.clock.now()).stop()
        await platform.offer(place, message_id, {STOP_EMOJI: replace(stop, kind="plain")})
        return message_id

    async def edit(self, message_id: str, text: str) -> None:
        self._edits += 1
        key = self._platform.to_key("edit", message_id, self._edits, text)
        await self._platform.edit(self._turn.place, message_id, Post(self._draw(text), key))

    def _draw(self, text: str) -> str:
        return f"{last_part(text, self._platform.limits.message_chars - ROOM_FOR_HINT)}\n\n{STOP_HINT}"


class ReactionClick(Click):
    """A reaction that presses a button."""

    def __init__(self, platform: PostingPlatform, button: Button, arrival: IncomingMessage) -> None:
        super().__init__(button, arrival)
        self._platform, self.to = platform, to_destination(arrival)

    async def whisper(self, text: str) -> None:
        """Answer for all to see, as nothing is seen by one alone; a vote, and a stranger's, is a reaction like any.

        A stranger is told once, however often they press.
        """
        is_own, pressed = self.account == self.button.asker, self.arrival.platform_message_id
        if text not in (THANKS, STOPPING) and (is_own or self.button.action in (CHOICE, RUN)):
            key = self._platform.to_key("click", *((self.arrival.event_id,) if is_own else (pressed, self.account)))
            await self._platform.post(self.arrival.place, Post(text, key, pressed))

    async def replace(self, reply: "Reply") -> None:
        """Answer a command."""
        await self._platform.send(reply)

    def mention(self, account: str) -> str:
        """Return how the platform mentions an account."""
        return self._platform.mention(account)

    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message; later reactions mean nothing."""
        await self._platform.accept(message)
        place, pressed = self.arrival.place, self.arrival.platform_message_id
        await self._platform.reactions.delete(place.channel, pressed or "")


async def press(platform: PostingPlatform, reaction: IncomingMessage, emoji: str) -> None:
    """Do what a reaction to the message `reaction.platform_message_id` means, if it means anything."""
    pressed = await platform.reactions.find(reaction.place.channel, reaction.platform_message_id or "", emoji)
    if pressed is not None:
        button, thread = pressed
        reaction = replace(reaction, place=replace(reaction.place, thread=thread))
        await accept_click(platform.app, ReactionClick(platform, button, reaction))
