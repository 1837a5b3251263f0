"""The gateway connection: what Discord tells becomes messages in the inbox."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import discord

from adapters.base import STORE_SECONDS
from adapters.chat.buttons import AnswerButtons
from adapters.chat.checkpoint import take_missed
from adapters.chat.edits import Edits
from adapters.chat.running import Running
from adapters.discord.events.catch_up import list_missed
from adapters.discord.events.checkpoint import Checkpoint
from adapters.discord.events.incoming import (
    PLATFORM,
    calls,
    is_written_by_a_person,
    to_incoming,
    to_place,
    to_platform_context,
    to_sender,
    to_text,
)
from adapters.discord.events.listening import Listening
from adapters.discord.events.welcome import welcome
from adapters.discord.interactions import slash
from adapters.discord.interactions.interactions import Interactions
from adapters.discord.sending.buttons import to_rows
from adapters.discord.sending.render import render
from adapters.discord.transport.library import client_options
from adapters.discord.transport.rest import THREAD_EXISTS, IntentMissing, Refused, TokenRefused
from agent import commands
from agent.queue.inbox import accept
from shared.db.retries import retry_on_lost_db
from shared.errors import ParleyError, Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from adapters.discord.transport.rest import Rest
    from agent.app import App

THREAD_NAME_CHARS = 80
CLOSE_SECONDS = 5.0
TOKEN_REVOKED = 4004
NEW_FOR = timedelta(days=1)
EDIT_IS_NEW_FOR = timedelta(minutes=10)

log = get_logger()


class Gateway(discord.AutoShardedClient):
    """One client for some shards."""

    def __init__(self, app: "App", rest: "Rest", seen: Checkpoint, **options: Any) -> None:
        super().__init__(**(client_options(rest.pace.trace()) | options))
        self._app, self._rest, self._checkpoint = app, rest, seen
        self._listening = Listening(app.database)
        self._interactions, self._edits = Interactions(app, rest), Edits(app, PLATFORM)
        self._gap = 0
        # The library forgets the tasks in which it calls us, and would leave them behind when it closes.
        self._running = Running()
        # Messages of one channel are taken one after the other, whatever is fetched for them in between.
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    @property
    def me(self) -> int:
        """Return the agent's own id."""
        return self.user.id if self.user is not None else 0

    async def setup_hook(self) -> None:
        """Register the commands before anybody can use them."""
        try:
            await slash.sync(self._app, self._rest)
        except ParleyError as error:
            log.error("discord_commands_not_synced", cause=str(error))

    async def start_up(self, token: str) -> None:
        """Connect and stay connected; raises `Undeliverable` when Discord won't have us."""
        try:
            await self.start(token)
        except discord.LoginFailure as error:
            raise TokenRefused from error
        except discord.PrivilegedIntentsRequired as error:
            raise IntentMissing from error
        except discord.ConnectionClosed as error:
            # The token was revoked while we were connected.
            if error.code != TOKEN_REVOKED:
                raise
            raise TokenRefused from error

    async def close(self) -> None:
        """Leave; what was being stored is stored first."""
        await super().close()
        await self._running.settle(CLOSE_SECONDS)

    async def on_connect(self) -> None:
        """Mark a new session before its first event: what was missed lies behind what comes now."""
        if not self._gap:
            self._gap = self._checkpoint.hold()

    async def on_ready(self) -> None:
        """Read what was written while nobody listened: after a start, and after a session that could not be resumed."""
        since, self._gap = self._gap, 0
        if not since:
            self._checkpoint.begin_now(discord.utils.time_snowflake(self._app.clock.now()))
            return
        with self._running.kept():
            await take_missed(PLATFORM, list_missed(self._app, self, since), self.on_message)
        self._checkpoint.release(since)

    async def on_guild_join(self, guild: discord.Guild) -> None:
        """Introduce the agent on a new server."""
        with self._running.kept():
            await welcome(self._app, guild)

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """Introduce the agent where it was invited while it was down."""
        joined = guild.me.joined_at
        if joined is not None and self._app.clock.now() - joined < NEW_FOR:
            with self._running.kept():
                await welcome(self._app, guild)

    async def on_message(self, message: discord.Message) -> None:
        """Store a message that is for the agent."""
        with self._running.kept(), self._checkpoint.taking(message.id):
            async with self._locked(message.channel.id):
                self._listening.remember(message, self.me)
                if is_written_by_a_person(message):
                    await retry_on_lost_db(lambda: self._take(message), STORE_SECONDS)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Take a command, a menu entry or a click."""
        with self._running.kept():
            await self._interactions.take(interaction, self.me)

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """Take a changed text; one that calls the agent only now is a new message."""
        message = payload.message
        if not is_written_by_a_person(message) or message.edited_at is None:
            return
        self._listening.correct(message, self.me)
        with self._running.kept():
            async with self._locked(message.channel.id):
                edited = await self._edits.change(str(message.id), to_text(message, self.me))
                if edited is None and self._calls_only_now(message, message.edited_at):
                    await retry_on_lost_db(lambda: self._take(message, sent_at=message.edited_at), STORE_SECONDS)
            if edited is not None and edited.turn_id is not None:
                await self._edits.offer_again(edited.turn_id, str(message.author.id), self._show_buttons)

    async def _show_buttons(self, answer: Any, shown: AnswerButtons) -> None:
        ids = {
            "channel_id": answer.platform_thread_id or answer.platform_channel_id,
            "message_id": answer.platform_message_id,
        }
        path, body = "/channels/{channel_id}/messages/{message_id}", {"components": to_rows(shown)}
        try:
            await self._rest.call("PATCH", path, body, **ids)
        except (Refused, Unavailable) as error:
            # The answer may be gone, or be one that only its asker sees.
            log.info("rerun_not_offered", cause=str(error))

    def _calls_only_now(self, message: discord.Message, edited_at: datetime) -> bool:
        # Discord tells of changes by others, a pin or a preview, in the same way: those are not what the person has
        # written just now. And nobody gives a command by correcting a text.
        is_new = self._app.clock.now() - edited_at < EDIT_IS_NEW_FOR
        return is_new and calls(message, self.me) and not to_text(message, self.me).startswith("/")

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        """Forget a message."""
        await self._forget(payload.channel_id, {payload.message_id})

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        """Forget many messages."""
        await self._forget(payload.channel_id, payload.message_ids)

    async def _forget(self, channel_id: int, message_ids: set[int]) -> None:
        self._listening.forget(channel_id, message_ids)
        with self._running.kept():
            async with self._locked(channel_id):
                # What was being stored just now is stored, and found.
                pass
            await self._edits.delete(str(each) for each in message_ids)

    def _locked(self, channel_id: int) -> asyncio.Lock:
        return self._locks.setdefault(channel_id, asyncio.Lock())

    async def _take(self, message: discord.Message, sent_at: datetime | None = None) -> None:
        mention = await self._listening.find_mention(message, self.me)
        if mention is None or await self._is_command(message):
            return
        earlier = await self._listening.list_earlier(message, self.me, is_first=mention.is_first)
        thread_id = await self._open_thread(message) if mention.wants_thread else None
        incoming = to_incoming(message, self.me, earlier, thread_id)
        await accept(self._app.database, replace(incoming, sent_at=sent_at or incoming.sent_at))
        self._listening.mark_told(message)

    async def _is_command(self, message: discord.Message) -> bool:
        """Answer a command that was typed as a message; one that is private goes to the person alone."""
        said = to_text(message, self.me)
        if not said.startswith("/"):
            return False
        around = to_platform_context(message.author, message.channel, message.guild)
        place = to_place(message.channel, message.guild)
        reply = await commands.answer(self._app, to_sender(message.author), place, said, around)
        if reply is None:
            return False
        try:
            channel = message.channel
            if reply.is_private and message.guild is not None:
                channel = await message.author.create_dm()
            for index, part in enumerate(render(reply.text).parts):
                await channel.send(part, nonce=f"c-{message.id}-{index}", suppress_embeds=True)
        except discord.HTTPException as error:
            log.warning("command_not_answered", cause=str(error))
        return True

    async def _open_thread(self, message: discord.Message) -> str | None:
        """Open a thread for a question; without the right to, it is answered where it was asked."""
        name = to_text(message, self.me).replace("\n", " ").strip()[:THREAD_NAME_CHARS] or "Question"
        try:
            thread = await message.create_thread(name=name, auto_archive_duration=1440)
        except discord.HTTPException as error:
            # A message has one thread, and it has the message's id: it was made by an attempt before.
            return str(message.id) if error.code == THREAD_EXISTS else None
        return str(thread.id)
