"""Decides which messages are for the agent, and keeps the latest messages, the direct channels and how far it heard.

What is not stored is read from the history as soon as it can be, after a start as after an outage: so it does not wait
in memory, nor does anything wait for a server whose cell is away.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial

import discord
from cachetools import FIFOCache
from msgspec import Struct

from adapters.base import BotAccount, Running, isolated
from adapters.chat.addressing import Exchanges, Recent, Rules
from adapters.discord.bots import Bot
from adapters.discord.events.incoming import mentions_agent, to_addressing, to_place, to_quoted_message
from adapters.discord.transport.rest import Refused, insist
from shared.db.database import Database, DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ServerMoved, Unavailable
from shared.log import get_logger
from shared.messages import QuotedMessage

statements = load_statements(__file__)

MOST_EARLIER, MOST_CHAIN = 10, 4
REMEMBERED_CHANNELS = 1000
# An answer without its context is better than one that waits for long.
CONTEXT_SECONDS = 3.0
# A direct channel that is in use is noted again after this many seconds.
NOTED_SECONDS = 3600.0
MOST_REMEMBERED = 10_000
# Ours and Discord's.
CLOCKS_APART = timedelta(minutes=1)
# Between two tries to read a history.
FIRST_WAIT, LONGEST_WAIT = 0.5, 10.0
# Reads the messages after an id, of one server or, with None, of all; raises what is LOST.
Read = Callable[[int, int | None], Awaitable[None]]
LOST = (DatabaseLost, ServerMoved)

log = get_logger()


class Mention(Struct, frozen=True):
    """A message that the agent answers. `is_first`: it is the agent's first one in this place."""

    is_first: bool
    wants_thread: bool


class Listening:
    """Applies the channel modes, and keeps the latest messages of each channel."""

    def __init__(self, bot: Bot, rules: Rules) -> None:
        self._bot, self._rules = bot, rules
        self._recent: Recent[int, QuotedMessage] = Recent(MOST_EARLIER + 1)
        self._known_up_to: FIFOCache[int, int] = FIFOCache(REMEMBERED_CHANNELS)
        self._exchanges = Exchanges()

    async def find_mention(self, message: discord.Message, me: int) -> Mention | None:
        """Return a `Mention` if the message is for the agent, else None."""
        place = to_place(message.channel, message.guild)
        calls_other = any(mentions_agent(message, other) for other in self._bot.others)
        if calls_other and not place.is_direct and not mentions_agent(message, me):
            # That one answers.
            return None
        rule = await self._rules.find(place)
        thread = message.channel if isinstance(message.channel, discord.Thread) else None
        takes_part = thread is not None and (rule.is_known or thread.owner_id == me)
        takes_part = takes_part and rule.adapter not in self._bot.other_adapters
        if not self._exchanges.is_for_agent(to_addressing(message, me), place, rule, takes_part=takes_part):
            return None
        can_have_thread = isinstance(message.channel, discord.TextChannel)
        return Mention(is_first=not rule.is_known, wants_thread=rule.thread_per_question and can_have_thread)

    def remember(self, message: discord.Message, me: int) -> None:
        """Keep a server message as context for the next mention."""
        if message.guild is None:
            return
        quote = to_quoted_message(message, me)
        if message.author.id not in {me, *self._bot.others} and quote.text:
            self._recent.remember(message.channel.id, message.id, quote)

    def correct(self, message: discord.Message, me: int) -> None:
        """Apply an edit to the kept messages."""
        self._recent.change(message.channel.id, {message.id}, lambda _: to_quoted_message(message, me))

    def forget(self, channel_id: int, message_ids: Collection[int]) -> None:
        """Drop deleted messages."""
        self._recent.forget(channel_id, message_ids)

    def mark_known(self, message: discord.Message) -> None:
        """Note that the conversation contains this channel's messages up to this one."""
        self._known_up_to[message.channel.id] = message.id

    async def list_earlier(self, message: discord.Message, me: int, *, is_first: bool) -> list[QuotedMessage]:
        """Return the earlier messages that the agent has not seen: the chain of replies, and the latest ones."""
        chain = await _list_chain(message, me, depth=MOST_CHAIN if is_first else 1)
        if message.guild is None:
            return chain
        cutoff = self._known_up_to.get(message.channel.id, 0)
        recent = self._recent.list_entries(message.channel.id).items()
        lines = [line for number, line in recent if cutoff < number < message.id][-MOST_EARLIER:]
        if is_first and len(lines) < MOST_EARLIER:

            async def read() -> list[discord.Message]:
                history = message.channel.history(limit=MOST_EARLIER, before=message)
                return [earlier async for earlier in history]

            try:
                before = await insist(read, CONTEXT_SECONDS)
            except (Refused, Unavailable) as error:
                log.info("discord_context_not_read", channel=message.channel.id, cause=str(error))
            else:
                quotes = [to_quoted_message(earlier, me) for earlier in reversed(before)]
                lines = [quote for quote in quotes if quote.text] or lines
        return [*(line for line in chain if line not in lines), *lines]


async def _list_chain(message: discord.Message, me: int, depth: int) -> list[QuotedMessage]:
    chain: list[QuotedMessage] = []
    while len(chain) < depth and (reference := message.reference) is not None:
        original = reference.resolved
        if not isinstance(original, discord.Message):
            if reference.message_id is None or reference.channel_id != message.channel.id:
                break
            try:
                fetching = partial(message.channel.fetch_message, reference.message_id)
                original = await insist(fetching, CONTEXT_SECONDS)
            except (Refused, Unavailable):
                break
        # The agent's messages are in the conversation already, unless this message starts it.
        if original.author.id != me or depth > 1:
            chain.append(to_quoted_message(original, me))
        elif depth == 1:
            break
        message = original
    return list(reversed(chain))


class DirectChannels:
    """The direct conversations of one bot, for catching up: Discord lists them nowhere.

    They are kept apart from the conversations, whose channels may also be named by callers of the HTTP API.
    """

    def __init__(self, database: Database, bot: BotAccount, monotonic: Callable[[], float]) -> None:
        self._database, self._bot, self._monotonic = database, bot, monotonic
        self._note_times: FIFOCache[int, float] = FIFOCache(MOST_REMEMBERED)

    async def note(self, channel_id: int) -> None:
        """Store that this channel is in use."""
        now = self._monotonic()
        if now - self._note_times.get(channel_id, -NOTED_SECONDS) < NOTED_SECONDS:
            return
        parameters = {"bot_id": await self._bot.find_id(), "channel": str(channel_id)}
        async with self._database.statement() as session:
            await session.execute(statements.note_direct_channel, parameters)
        self._note_times[channel_id] = now

    async def list_recent(self) -> list[int]:
        """Return the channels in use within the last 30 days, the latest first."""
        bot_id = await self._bot.find_id()
        async with self._database.statement() as session:
            rows = (await session.execute(statements.list_direct_channels, {"bot_id": bot_id})).all()
        return [int(row.platform_channel_id) for row in rows]


class Checkpoint:
    """Discord's ids grow with time, so one id is a checkpoint for all channels."""

    def __init__(self) -> None:
        self._newest = 0
        self._open: set[int] = set()
        self._holds: Counter[int] = Counter()

    def begin_at(self, mark: str | None, now: datetime) -> None:
        """Continue from the previous holder's checkpoint; None means that there is nothing to catch up on.

        A mark that is none, or of a time to come, says nothing: all is read then that catch-up covers.
        """
        if mark is not None:
            latest = discord.utils.time_snowflake(now + CLOCKS_APART)
            since = int(mark) if mark.isdecimal() and 0 < int(mark) <= latest else 1
            self._newest = min(self._newest or since, since)

    @property
    def newest(self) -> int:
        """Return the id up to which everything is stored, 0 if unknown."""
        return min([self._newest, *(message_id - 1 for message_id in self._open), *self._holds])

    def to_text(self) -> str | None:
        """Return the checkpoint for the database."""
        return str(self.newest) if self.newest > 0 else None

    def begin_now(self, message_id: int) -> None:
        """Begin at this id unless a checkpoint is known."""
        self._newest = self._newest or message_id

    def hold(self, since: int | None = None) -> int:
        """Return the checkpoint (or `since`) and keep it there until `release`: missed messages may be older."""
        since = self.newest if since is None else since
        if since:
            self._holds[since] += 1
        return since

    def release(self, since: int) -> None:
        """Advance the checkpoint again: everything missed after `since` is stored."""
        self._holds -= Counter([since])

    @contextmanager
    def accepting(self, message_id: int) -> Iterator[None]:
        """Advance past a message if the block succeeds; after a failure the next catch-up finds it again."""
        self._open.add(message_id)
        yield
        # Not in a `finally`: after a cancellation the message is not stored.
        self._open.discard(message_id)
        self._newest = max(self._newest, message_id)


class PutOff:
    """What is to be read: each server for itself, and all of them with the direct messages."""

    def __init__(self, checkpoint: Checkpoint, running: Running, read: Read) -> None:
        self._checkpoint, self._running, self._read = checkpoint, running, read
        # By server, None for all: the id after which messages are to be read, which the checkpoint does not pass.
        self._since: dict[int | None, int] = {}
        # Whether what reads them has ended.
        self._has_ended: dict[int | None, Callable[[], bool]] = {}

    async def store(self, message: discord.Message, work: Callable[[], Awaitable[None]]) -> None:
        """Store a message by `work`, or put it off, with all that follow it, while the database is lost."""
        server = None if message.guild is None else message.guild.id
        if server not in self._since:
            try:
                await work()
                return
            except DatabaseLost as error:
                log.warning("discord_server_waits", server=server, cause=str(error.__cause__ or error))
        self.note(message.id - 1, server)

    def note(self, since: int, server: int | None = None) -> None:
        """Read what was written after an id, on one server or everywhere."""
        before = self._since.get(server)
        if before is None or since < before:
            self._since[server] = self._checkpoint.hold(since)
            self._checkpoint.release(before or 0)
        if (has_ended := self._has_ended.get(server)) is None or has_ended():
            self._has_ended[server] = self._running.start(self._read_later(server), "put off messages")

    async def _read_later(self, server: int | None) -> None:
        wait = FIRST_WAIT
        while server in self._since:
            with suppress(*LOST):
                await isolated(self._read_once(server), "discord_history_not_read", unless=LOST, server=server)
            if server in self._since:
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, wait * 2)
        del self._has_ended[server]

    async def _read_once(self, server: int | None) -> None:
        since, is_read = self._since.pop(server), False
        try:
            await self._read(since, server)
            is_read = True
        finally:
            if not is_read:
                self.note(since, server)
            self._checkpoint.release(since)
