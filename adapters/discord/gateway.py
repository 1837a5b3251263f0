"""The gateway connection: accepts messages, edits, deletions and interactions."""

import asyncio
import math
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import discord
from msgspec import Struct
from msgspec.structs import replace

from adapters.base import FIRST_WAIT, LONGEST_WAIT, STORE_SECONDS, Running
from adapters.chat.addressing import Rules
from adapters.chat.intake import Edits, answer_typed
from adapters.discord.events.catch_up import CatchUp
from adapters.discord.events.incoming import (
    PLATFORM,
    is_written_by_a_person,
    mentions_agent,
    to_incoming,
    to_place,
    to_text,
)
from adapters.discord.events.listening import Checkpoint, DirectChannels, Listening, PutOff
from adapters.discord.events.members import Members
from adapters.discord.events.welcome import welcome
from adapters.discord.interactions import slash
from adapters.discord.interactions.interactions import Interactions
from adapters.discord.sending.reply import post_reply, replace_buttons
from adapters.discord.transport.library import client_options
from adapters.discord.transport.rest import THREAD_EXISTS, IntentMissing, Refused, TokenRefused, as_our_errors, insist
from agent.commands import match_command
from shared.db.database import retry_on_lost_db
from shared.errors import ParleyError, ServerMoving, Unavailable
from shared.log import get_logger
from shared.messages import Place
from shared.text import abbreviate, to_command_line, without_credential

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adapters.cells.routes import Cells
    from adapters.discord.sessions import Sessions
    from adapters.discord.transport.rest import Rest
    from agent.app import App

THREAD_NAME_CHARS = 80
CLOSE_SECONDS = 5.0
TOKEN_REVOKED = 4004
NEW_FOR = timedelta(days=1)
EDIT_IS_NEW_FOR = timedelta(minutes=10)
MOST_EDITED = 10_000

log = get_logger()


class Shard(Struct, frozen=True):
    """One of `count` shards, how far it has come, and the pace of its sessions."""

    id: int
    count: int
    checkpoint: Checkpoint
    sessions: "Sessions"


class Gateway(discord.AutoShardedClient):
    """The client of one shard, which can so be left to another process without the others."""

    def __init__(
        self,
        app: "App",
        rest: "Rest",
        shard: Shard,
        *,
        cells: "Cells | None" = None,
        store_seconds: float = STORE_SECONDS,
        **options: Any,
    ) -> None:
        own = {"shard_ids": [shard.id], "shard_count": shard.count}
        super().__init__(**(client_options(rest.rate_limiter.trace()) | own | options))
        self._app, self._rest, self._shard, self._checkpoint = app, rest, shard, shard.checkpoint
        self._cells, self._store_seconds = cells, store_seconds
        self._edits = Edits(app, PLATFORM, rest.bot.other_adapters, cells=cells, seconds=store_seconds)
        self._rules = Rules(app.database, cells)
        self._listening, self._interactions = Listening(rest.bot, self._rules), Interactions(app, rest)
        self._directs = DirectChannels(app.database, rest.rate_limiter.bot, app.clock.monotonic)
        self._members = Members(rest.rate_limiter)
        # The id after which messages were missed before this session; 0: none were.
        self._gap = 0
        # By server that is not available yet: the id after which its messages were missed.
        self._late: dict[int, int] = {}
        # The latest form of messages whose edit is not stored.
        self._edited: dict[int, discord.Message] = {}
        self._running = Running()
        self._put_off = PutOff(self._checkpoint, self._running, self._read_missed)
        # Messages of one channel are stored in order, however long the lookups for each of them take.
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    @property
    def me(self) -> int:
        """Return the agent's user id, 0 before it is known."""
        return self.user.id if self.user is not None else 0

    def _schedule_event(self, *args: Any, **kwargs: Any) -> "asyncio.Task[None]":
        # The library keeps no reference to the tasks of its listeners and doesn't wait for them when it closes.
        listening = super()._schedule_event(*args, **kwargs)
        self._running.tasks.add(listening)
        listening.add_done_callback(self._running.tasks.discard)
        return listening

    async def setup_hook(self) -> None:
        """Register the commands; messages don't wait for that."""
        self._running.start(self._sync_commands(), "commands")

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:  # as in the library
        """Wait until Discord accepts one more session of this token."""
        await self._shard.sessions.wait(self._shard.id)

    async def _sync_commands(self) -> None:
        wait = FIRST_WAIT
        while True:
            try:
                await slash.sync(self._app, self._rest)
                return
            except Unavailable as error:
                log.warning("discord_commands_not_synced", cause=str(error), again_in=wait)
            except ParleyError as error:
                log.error("discord_commands_not_synced", cause=str(error))
                return
            await asyncio.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 2)

    async def start_up(self, token: str) -> None:
        """Connect and stay connected; raises `Undeliverable` when Discord refuses the token or the intents."""

        def catch_up(since: datetime) -> None:
            self._put_off.note(discord.utils.time_snowflake(since))

        try:
            with self._app.events.failovers.observed(catch_up):
                await as_our_errors(self.start(token))
        except discord.PrivilegedIntentsRequired as error:
            raise IntentMissing from error
        except discord.ConnectionClosed as error:
            # The token was revoked while we were connected.
            if error.code != TOKEN_REVOKED:
                raise
            raise TokenRefused from error

    async def close(self) -> None:
        """Disconnect; messages being stored are finished."""
        await super().close()
        await self._running.settle(CLOSE_SECONDS)

    async def on_shard_connect(self, shard_id: int) -> None:
        """Note a new session."""
        self._shard.sessions.begun.add(shard_id)

    async def on_shard_resumed(self, shard_id: int) -> None:
        """Note that the session goes on."""
        self._shard.sessions.begun.add(shard_id)

    async def on_shard_disconnect(self, shard_id: int) -> None:
        """Note that there is no session: when that lasts, another process takes the shard."""
        self._shard.sessions.begun.discard(shard_id)

    async def on_connect(self) -> None:
        """Hold the checkpoint before the first event of a session: missed messages may be older than new ones."""
        if not self._gap:
            self._gap = self._checkpoint.hold()

    async def on_ready(self) -> None:
        """Catch up on missed messages: after a start, and after a session that could not be resumed."""
        since, self._gap = self._gap, 0
        if not since:
            self._checkpoint.begin_now(discord.utils.time_snowflake(self._app.clock.now()))
            return
        # A shutdown does not wait for it: what is not accepted yet is found by the next catch-up.
        self._put_off.note(since)
        self._checkpoint.release(since)

    async def _read_missed(self, since: int, server: int | None) -> None:
        while not self._is_holder():  # noqa: ASYNC110  # an end of time, which nobody tells
            await asyncio.sleep(FIRST_WAIT)
        # Raises `DatabaseLost` before anything is read that can't be stored.
        await self._rules.find(Place(PLATFORM, None if server is None else str(server), ""))
        guilds = [guild for guild in self.guilds if server in (None, guild.id)]
        for guild in guilds:
            if guild.unavailable:
                self._late[guild.id] = self._late.get(guild.id) or self._checkpoint.hold(since)
        limiter, accept = self._rest.rate_limiter, self._accept_missed
        reading = CatchUp(self._app, self, self._directs, rate_limiter=limiter, locked=self._locked, accept=accept)
        await reading.run(since, guilds, has_directs=server is None)
        self._members.forget()

    async def _accept_missed(self, message: discord.Message) -> None:
        with self._checkpoint.accepting(message.id):
            await self._take(message)

    async def on_guild_join(self, guild: discord.Guild) -> None:
        """Introduce the agent on a new server."""
        await welcome(self._apps_of(guild.id)[0], guild)

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """Read what was missed on a server that comes late; introduce the agent on one that has just invited it."""
        if since := self._late.pop(guild.id, 0):
            self._put_off.note(since, guild.id)
            self._checkpoint.release(since)
        joined = guild.me.joined_at
        if joined is not None and self._app.clock.now() - joined < NEW_FOR:
            await welcome(self._apps_of(guild.id)[0], guild)

    async def on_message(self, message: discord.Message) -> None:
        """Accept a message if it is for the agent."""
        with self._checkpoint.accepting(message.id):
            async with self._locked(message.channel.id):
                await self._take(message)

    async def _take(self, message: discord.Message) -> None:
        if not self._is_holder():
            self._put_off.note(self._checkpoint.newest or message.id - 1)
            return
        self._listening.remember(message, self.me)
        if not is_written_by_a_person(message):
            return
        work: Callable[[], Awaitable[None]] = partial(self._accept, message)
        if self._cells is None or message.guild is None:
            # Whoever loses the only database, or the first cell's, loses the shard: what follows is skipped.
            work = partial(retry_on_lost_db, work, self._store_seconds)
        await self._put_off.store(message, work)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Handle a command, a menu entry, a form or a click."""
        if not self._is_holder():
            return
        try:
            if self._cells is not None and interaction.guild_id is not None:
                # Nothing refuses a click or a command in a cell that the server has left.
                await self._cells.read_again(Place(PLATFORM, str(interaction.guild_id), ""))
            apps = self._apps_of(interaction.guild_id)
        except Unavailable as error:
            await self._interactions.put_off(interaction, error)
            return
        if len(apps) > 1:
            # On its way to another cell: one has no data yet, and the other one's are being copied.
            await self._interactions.put_off(interaction, ServerMoving())
            return
        interactions = self._interactions if apps[0] is self._app else Interactions(apps[0], self._rest)
        await interactions.on_interaction(interaction, self.me)

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """Apply an edit; if the message mentions the agent only since the edit, accept it as a new message."""
        message = payload.message
        if not is_written_by_a_person(message) or message.edited_at is None:
            return
        self._listening.correct(message, self.me)
        is_waiting = message.id in self._edited
        if not is_waiting and len(self._edited) >= MOST_EDITED:
            log.error("discord_edit_lost", message=message.id, cause="too many wait for the database")
            return
        self._edited[message.id] = message
        if not is_waiting:
            try:
                # Discord does not repeat it.
                await retry_on_lost_db(lambda: self._change(message.id), math.inf)
            finally:
                self._edited.pop(message.id, None)

    async def _change(self, message_id: int) -> None:
        while (message := self._edited.get(message_id)) is not None and message.edited_at is not None:
            await self._change_once(message, message.edited_at)
            if self._edited.get(message_id) is message:
                return

    async def _change_once(self, message: discord.Message, edited_at: datetime) -> None:
        async with self._locked(message.channel.id):
            place, text = to_place(message.channel, message.guild), to_text(message, self.me)
            change = await self._edits.change(place, str(message.id), text)
            # Discord also reports pins and link previews as edits, so `edited_at` has to be recent. An edit is never a
            # command.
            is_new = self._app.clock.now() - edited_at < EDIT_IS_NEW_FOR
            calls_agent = mentions_agent(message, self.me) and match_command(text) is None
            if change is None and is_new and calls_agent:
                await retry_on_lost_db(partial(self._accept, message, edited_at), self._store_seconds)
        if change is not None and change.turn_id is not None:
            await self._edits.offer_again(change.turn_id, str(message.author.id), partial(replace_buttons, self._rest))

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        """Delete a stored message."""
        await self._delete(payload.channel_id, {payload.message_id})

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        """Delete stored messages."""
        await self._delete(payload.channel_id, payload.message_ids)

    async def _delete(self, channel_id: int, message_ids: set[int]) -> None:
        self._listening.forget(channel_id, message_ids)
        for message_id in message_ids:
            self._edited.pop(message_id, None)
        async with self._locked(channel_id):
            # Wait until a message that is being stored can be found.
            pass
        await self._edits.delete(map(str, message_ids))

    def _is_holder(self) -> bool:
        # A process that was frozen wakes up with events that the next holder has seen, and a command acts each time.
        return self._app.clock.monotonic() < self._shard.sessions.held_until

    def _locked(self, channel_id: int) -> asyncio.Lock:
        return self._locks.setdefault(channel_id, asyncio.Lock())

    def _apps_of(self, server: int | None) -> "Sequence[App]":
        # That of the cell in which the server lives; of a server on its way the one that it leaves, and the other one.
        if self._cells is None:
            return (self._app,)
        return [self._cells.get(name) for name in self._cells.find(PLATFORM, None if server is None else str(server))]

    async def _accept(self, message: discord.Message, sent_at: datetime | None = None) -> None:
        if self._cells is None:
            await self._accept_in(self._app, message, sent_at)
            return
        place, work = (
            to_place(message.channel, message.guild),
            partial(self._accept_in, message=message, sent_at=sent_at),
        )
        is_command = match_command(to_text(message, self.me)) is not None
        while True:
            if is_command:
                await self._cells.until_settled(place)
            with suppress(ServerMoving):
                await self._cells.use(place, work, is_message=not is_command, has_rows=True)
                return
            await asyncio.sleep(FIRST_WAIT)

    async def _accept_in(self, app: "App", message: discord.Message, sent_at: datetime | None) -> None:
        mention = await self._listening.find_mention(message, self.me)
        place = to_place(message.channel, message.guild)
        if place.is_direct:
            await self._directs.note(message.channel.id)
        if mention is None:
            return
        if message.guild is not None and isinstance(message.author, discord.User):
            await self._members.complete(message)
        text, to_message = (
            to_text(message, self.me),
            partial(to_incoming, message, self.me, adapter=self._rest.bot.adapter),
        )
        post = partial(post_reply, app, self._rest)
        if to_command_line(text) is not None and await answer_typed(app, to_message(), post):
            return
        earlier = await self._listening.list_earlier(message, self.me, is_first=mention.is_first)
        # None without the permission to open a thread.
        thread_id = None
        if mention.wants_thread:
            name = abbreviate(without_credential(text).replace("\n", " ").strip(), THREAD_NAME_CHARS) or "Question"
            try:
                thread = await insist(lambda: message.create_thread(name=name, auto_archive_duration=1440))
                thread_id = str(thread.id)
            except Refused as error:
                # A message has at most one thread, which has the message's id: an earlier attempt has opened it.
                thread_id = str(message.id) if error.platform_code == THREAD_EXISTS else None
            except Unavailable:
                thread_id = None
        incoming = to_message(earlier, thread_id=thread_id)
        # What is set for the channel is where the server comes from, its new messages may be stored where it goes.
        await (app.inbox if self._cells is None else self._cells).accept(
            replace(incoming, sent_at=sent_at or incoming.sent_at)
        )
        self._listening.mark_known(message)
