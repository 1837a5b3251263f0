"""What people write: messages, typed commands, edits, deletions, and what is shown beside a text.

Embeds of other apps, previews of links and polls are `Card`s, which each platform reads from its own form of them.
"""

import asyncio
import math
from asyncio import CancelledError
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from mimetypes import MimeTypes
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from adapters.base import STORE_SECONDS
from adapters.chat.addressing import Addressing, Exchanges, Recent, Rules
from adapters.chat.buttons import AnswerButtons, TurnButtons
from adapters.chat.undelivered import Destination, answered, begin_answer, keep, run_command, to_reply
from agent import commands
from agent.commands import CommandReply
from agent.queue.edits import Edited, change_message, find_answer
from agent.queue.outbox import Reply
from agent.queue.redaction import redact
from shared.db.database import DatabaseLost, retry_on_lost_db
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger
from shared.messages import Attachment, PlatformContext, QuotedMessage
from shared.tasks import shield_until_done
from shared.text import clean, cut

if TYPE_CHECKING:
    from adapters.base import ChatPlatform
    from adapters.cells.routes import Cells
    from agent.app import App
    from shared.db.database import Database
    from shared.messages import IncomingMessage, Place

MOST_EARLIER, QUOTE_CHARS, TOPIC_CHARS, MOST_ROLES = 10, 500, 300, 20
CARDS_CHARS = 1500
MOST_CARDS, MOST_LINES = 10, 50
# So many deleted messages wait for a database that is away.
MOST_WAITING = 50_000
# The library's list of types is the same on every machine.
TYPES = MimeTypes()

log = get_logger()


async def answer_typed(
    app: "App",
    message: "IncomingMessage",
    post: Callable[[Reply], Awaitable[object]],
    prepare: Callable[[CommandReply], Awaitable[CommandReply]] | None = None,
) -> bool:
    """Answer a typed command once, however often the message comes; return False if it is not a command.

    `post` shows the reply. While the platform is not available, the reply is kept: as `prepare` has made it, for what
    may be done only once.
    """
    if commands.match_command(message.content) is None:
        return False
    answer = await run_command(app, message, to_destination(message), line=message.content)
    if answer is not None:
        to, reply = answer
        # Where only one person reads, a private answer is one like any other.
        reply = replace(reply, is_private=reply.is_private and not message.place.is_direct)
        reply = reply if prepare is None else await prepare(reply)
        async with answered(app, reply, to) as is_own:
            if is_own:
                await post_or_keep(app, to, reply, post=post)
    return True


def to_destination(message: "IncomingMessage") -> Destination:
    """Return where the reply to a message goes that no turn answers."""
    account, message_id = message.sender.platform_user_id, message.platform_message_id
    return Destination(message.adapter, message.place, account, message_id=message_id)


async def post_or_keep(
    app: "App", to: Destination, reply: CommandReply, post: Callable[[Reply], Awaitable[object]]
) -> None:
    """Show a reply that no turn gives, now or when the platform is available again.

    Who is ended meanwhile leaves it to others: the message is read again, and answered no more.
    """
    try:
        await post(to_reply(to, reply))
    except Undeliverable as error:
        log.warning("command_not_answered", cause=str(error))
    except Unavailable as error:
        await keep(app, to, reply, error=error)
    except CancelledError:
        with suppress(DatabaseLost):
            await shield_until_done(keep(app, to, reply, error=Unavailable("Who answers it is ended.")))
        raise


class Edits:
    """Applies edits and deletions to one platform's stored messages; those by the adapters `others` they edit.

    `cells`: those behind this door, in one of which a message is. `seconds`: how long an edit is tried again.
    """

    def __init__(
        self,
        app: "App",
        platform: str,
        others: Collection[str] = (),
        *,
        cells: "Cells | None" = None,
        seconds: float = STORE_SECONDS,
    ) -> None:
        self._app, self._platform, self._others, self._cells, self._seconds = app, platform, others, cells, seconds
        # By cell: deleted messages that are to be redacted there when it is back, and who does it.
        self._waiting: defaultdict[Database, set[str]] = defaultdict(set)
        self._asking: defaultdict[Database, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def change(self, place: "Place", message_id: str, text: str) -> Edited | None:
        """Replace the text of a stored message; None if it is not stored."""
        apps: Sequence[App] = (self._app,)
        if self._cells is not None:
            # Nothing refuses an edit in a cell that the server has left: it would find no message.
            await self._cells.read_again(place)
            apps = self._cells.list_apps(place)
        for app in apps:
            find = partial(change_message, app.database, self._platform, message_id, content=clean(text))
            change = await retry_on_lost_db(partial(find, others=self._others), self._seconds)
            if change is not None:
                return change
        return None

    async def delete(self, message_ids: Iterable[str]) -> int:
        """Cancel messages that are not answered yet, and redact those that are; return how many may have been stored.

        Nobody deletes them a second time: they wait for a database that is away however long that takes.
        """
        ids = set(message_ids)
        # In every cell, twice: while rows are on their way, the first time waits for the cell that they leave, and the
        # second time finds them in the other one.
        apps, times = ((self._app,), 1) if self._cells is None else (tuple(self._cells), 2)
        count = 0
        for _ in range(times):
            count += sum(await asyncio.gather(*(self._redact(app, ids) for app in apps)))
        return count

    async def _redact(self, app: "App", ids: set[str]) -> int:
        work, waiting = partial(redact, app.database, app.files.storage, platform=self._platform), self._waiting
        try:
            return await work(message_ids=ids)
        except DatabaseLost as error:
            if len(waiting[app.database]) + len(ids) > MOST_WAITING:
                log.error("deletions_lost", platform=self._platform, messages=len(ids), cause=str(error))
                raise
        # One of all that wait asks whether it is back, and redacts for them all.
        waiting[app.database] |= ids
        async with self._asking[app.database]:
            batch = waiting[app.database].copy()
            if batch & ids:
                await retry_on_lost_db(partial(work, message_ids=batch), math.inf)
                waiting[app.database] -= batch
        return len(ids)

    async def offer_again(
        self, turn_id: int, asker: str, show: Callable[[Any, AnswerButtons], Awaitable[None]]
    ) -> None:
        """Offer to answer the edited text, with a button below the old answer.

        `show` is called with the outbox row of that answer. An answer that is not sent yet gets the button when it is.
        """
        # No two cells have turns with one id.
        for app in (self._app,) if self._cells is None else self._cells:
            answer = await find_answer(app.database, turn_id)
            if answer is not None:
                turn_buttons = TurnButtons(turn_id, asker, app.clock.now())
                await show(answer, turn_buttons.answer(answer.choices, was_edited=True))


class Intake:
    """Takes what people write, for a platform that needs no more than a message to decide what is done with it.

    A message is for the agent or context for the next one that is, and commands are answered by the platform's `send`.
    """

    def __init__(self, platform: "ChatPlatform") -> None:
        self._platform, self._app = platform, platform.app
        self._edits, self._exchanges = Edits(platform.app, platform.name), Exchanges()
        self._rules = Rules(platform.app.database)
        self._recent: Recent[str, QuotedMessage] = Recent(MOST_EARLIER)

    async def take(
        self,
        message: "IncomingMessage",
        addressing: Addressing,
        *,
        question_thread: str | None = None,
        refusal: str | None = None,
        is_edit: bool = False,
    ) -> bool:
        """Take a message; return whether it was stored.

        `question_thread`: the thread that a question begins where each has its own. `refusal`: what is said when a
        part of the message can't be read. What only an edit makes one for the agent is never a command.
        """
        place = message.place
        rule = await self._rules.find(place)
        takes_part = place.thread is not None and rule.is_known
        if not self._exchanges.is_for_agent(addressing, place, rule, takes_part=takes_part):
            if rule.mode != "off":
                self.remember(message)
            return False
        earlier = tuple(self._recent.list_entries(place.channel, place.thread).values())
        message = replace(message, platform_context=replace(message.platform_context, earlier=earlier))
        if rule.thread_per_question and not place.is_direct and place.thread is None:
            message = replace(message, place=replace(place, thread=question_thread))
        if refusal is not None:
            await self.say(message, refusal)
        if not (message.content or message.attachments) or (is_edit and commands.match_command(message.content)):
            return False
        if await answer_typed(self._app, message, self._platform.send):
            return False
        await self._platform.accept(message)
        self._recent.clear(place.channel, place.thread)
        return True

    def remember(self, message: "IncomingMessage") -> None:
        """Keep a message that is not answered as context, for instance another bot's."""
        excerpt, place = to_quote(message), message.place
        if excerpt.text:
            self._recent.remember(place.channel, message.event_id, excerpt, thread=place.thread)

    async def edit(
        self,
        message: "IncomingMessage",
        addressing: Addressing,
        show: Callable[[Any, AnswerButtons], Awaitable[None]],
    ) -> None:
        """Apply an edit, which has to be the author's own; `message` is the new form, under the id of the old one.

        `show`: as for `Edits.offer_again`.
        """
        self._recent.change(message.place.channel, {message.event_id}, lambda _: to_quote(message))
        change = await self._edits.change(message.place, message.event_id, message.content)
        if change is None:
            await self.take(message, addressing, is_edit=True)
        elif change.turn_id is not None:
            await self._edits.offer_again(change.turn_id, message.sender.platform_user_id, show)

    async def delete(self, channel: str, message_ids: Collection[str]) -> None:
        """Forget messages that are deleted."""
        self._recent.forget(channel, message_ids)
        await self._edits.delete(message_ids)

    async def say(self, message: "IncomingMessage", text: str, *, once: str | None = None) -> None:
        """Answer a message without a turn; `once`: of all messages for which this name is given, the first alone."""
        reply, send = CommandReply(text, is_private=False), self._platform.send
        if once is None:
            await post_or_keep(self._app, to_destination(message), reply, post=send)
            return
        message = replace(message, event_id=once, platform_message_id=once)
        to = await begin_answer(self._app, message, to_destination(message), reply=reply)
        if to is not None:
            async with answered(self._app, reply, to) as is_own:
                if is_own:
                    await post_or_keep(self._app, to, reply, post=send)


def to_context(
    roles: Iterable[str],
    role_ids: Iterable[str] | None,
    *,
    earlier: Iterable[QuotedMessage] = (),
    **texts: object,
) -> PlatformContext:
    """Return the surroundings of a message; the `texts` are what anybody may have written: names, a title, a topic."""
    return PlatformContext(
        roles=tuple(clean(role) for role in roles)[:MOST_ROLES],
        role_ids=None if role_ids is None else tuple(role_ids),
        earlier=tuple(earlier),
        **{name: cut(clean(str(text)), TOPIC_CHARS) for name, text in texts.items() if text},
    )


def quote(
    name: str,
    text: str,
    *,
    files: Sequence[str] = (),
    below: Sequence[QuotedMessage] = (),
    message_id: str | None,
    author_id: str | None,
) -> QuotedMessage:
    """Return a message as context: its beginning, what is shown `below` it, its files; an empty text if it is empty."""
    parts = [cut(clean(text), QUOTE_CHARS), *(cut(part.text, CARDS_CHARS) for part in below)]
    suffix = f" [files: {', '.join(files)}]" if files else ""
    excerpt = "\n".join(part for part in parts if part) + suffix
    return QuotedMessage(clean(name), excerpt, message_id=message_id, author_id=author_id)


def to_quote(message: "IncomingMessage") -> QuotedMessage:
    """Return a message as context for another one."""
    account, files = message.sender.platform_user_id, [file.filename for file in message.attachments]
    name = message.sender.username or account
    return quote(name, message.content, files=files, message_id=message.event_id, author_id=account)


def to_file(
    name: object,
    mime_type: object,
    size: object,
    *,
    url: str | None,
    credential: str | None = None,
    voice_seconds: float | None = None,
) -> Attachment:
    """Return a file of a message, which the worker fetches; a missing type is guessed from its name."""
    filename = clean(str(name or "file"))
    # Parameters of the type, as in "text/plain; charset=utf-8", are cut off.
    kind = str(mime_type or "").partition(";")[0].strip() or TYPES.guess_type(filename, strict=False)[0]
    known_size = size if isinstance(size, int) and size > 0 else None
    return Attachment(
        filename,
        kind or "application/octet-stream",
        known_size,
        url=url,
        credential=credential,
        voice_seconds=voice_seconds,
    )


class Card(Struct, frozen=True):
    """Something that is shown as one: its lines as people see them, the title first."""

    lines: Sequence[str]


def to_poll(question: str, answers: Iterable[str]) -> Card:
    """Return a poll."""
    return Card([f"[poll] {question}", *(f"- {answer}" for answer in answers)])


def render_cards(cards: Sequence[Card], text: str = "") -> str:
    """Return the cards as text of at most CARDS_CHARS characters, without the lines that the message's `text` has."""
    lines: list[str] = []
    for card in cards[:MOST_CARDS]:
        stripped = [clean(line).strip() for line in card.lines[:MOST_LINES]]
        lines += [line for line in stripped if line and line not in text and line not in lines]
    return cut("\n".join(lines), CARDS_CHARS)
