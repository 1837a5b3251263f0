"""The gateway connection: accepts messages, edits, deletions and interactions."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import discord

from adapters.base import FIRST_WAIT, LONGEST_WAIT, STORE_SECONDS, Running
from adapters.chat.buttons import AnswerButtons
from adapters.chat.edits import Edits
from adapters.discord.events.catch_up import CatchUp
from adapters.discord.events.checkpoint import Checkpoint, DirectChannels
from adapters.discord.events.deletions import remove_stop_buttons
from adapters.discord.events.incoming import (
    PLATFORM,
    is_written_by_a_person,
    mentions_agent,
    to_incoming,
    to_place,
    to_platform_context,
    to_sender,
    to_text,
)
from adapters.discord.events.listening import Listening
from adapters.discord.events.members import Members
from adapters.discord.events.welcome import welcome
from adapters.discord.interactions import slash
from adapters.discord.interactions.interactions import Interactions
from adapters.discord.sending.command_reply import to_bodies
from adapters.discord.sending.message_writer import ChannelWriter
from adapters.discord.sending.render import to_rows
from adapters.discord.transport.library import client_options
from adapters.discord.transport.rest import THREAD_EXISTS, IntentMissing, Refused, TokenRefused, as_our_errors, insist
from agent import commands
from shared.credentials.typed import without_typed
from shared.db.retries import retry_on_lost_db
from shared.errors import ParleyError, Unavailable
from shared.log import get_logger
from shared.messages import Place

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
    """The client of some shards."""

    def __init__(self, app: "App", rest: "Rest", checkpoint: Checkpoint, **options: Any) -> None:
        super().__init__(**(client_options(rest.rate_limiter.trace()) | options))
        self._app, self._rest, self._checkpoint = app, rest, checkpoint
        self._listening = Listening(app.database)
        self._interactions, self._edits = Interactions(app, rest), Edits(app, PLATFORM)
        self._directs = DirectChannels(app.database, rest.rate_limiter.bot, app.clock.monotonic)
        self._members = Members()
        self._gap = 0
        # The library keeps no reference to the tasks of its listeners and doesn't wait for them when it closes.
        self._running = Running()
        # Messages of one channel are stored in order, however long the lookups for each of them take.
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    @property
    def me(self) -> int:
        """Return the agent's user id, 0 before it is known."""
        return self.user.id if self.user is not None else 0

    async def setup_hook(self) -> None:
        """Register the commands; messages don't wait for that."""
        self._running.start(self._sync_commands(), "commands")

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
        try:
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
        self._running.start(self._accept_missed(since), "catch-up")

    async def _accept_missed(self, since: int) -> None:
        catch_up = CatchUp(self._app, self, self._directs, accept=self.on_message)
        await retry_on_lost_db(lambda: catch_up.run(since), STORE_SECONDS)
        self._members.forget()
        self._checkpoint.release(since)

    async def on_guild_join(self, guild: discord.Guild) -> None:
        """Introduce the agent on a new server."""
        with self._running.kept():
            await welcome(self._app, guild)

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """Introduce the agent on a server that has invited it while no process listened."""
        joined = guild.me.joined_at
        if joined is not None and self._app.clock.now() - joined < NEW_FOR:
            with self._running.kept():
                await welcome(self._app, guild)

    async def on_message(self, message: discord.Message) -> None:
        """Accept a message if it is for the agent."""
        with self._running.kept(), self._checkpoint.accepting(message.id):
            async with self._locked(message.channel.id):
                self._listening.remember(message, self.me)
                if is_written_by_a_person(message):
                    await retry_on_lost_db(lambda: self._accept(message), STORE_SECONDS)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        """Handle a command, a menu entry, a form or a click."""
        with self._running.kept():
            await self._interactions.on_interaction(interaction, self.me)

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        """Apply an edit; if the message mentions the agent only since the edit, accept it as a new message."""
        message = payload.message
        if not is_written_by_a_person(message) or message.edited_at is None:
            return
        self._listening.correct(message, self.me)
        with self._running.kept():
            async with self._locked(message.channel.id):
                edited = await self._edits.change(str(message.id), to_text(message, self.me))
                if edited is None and self._mentions_only_now(message, message.edited_at):
                    await retry_on_lost_db(lambda: self._accept(message, sent_at=message.edited_at), STORE_SECONDS)
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
            # The answer may be deleted, or visible to its asker only.
            log.info("rerun_not_offered", cause=str(error))

    def _mentions_only_now(self, message: discord.Message, edited_at: datetime) -> bool:
        # Discord also reports pins and link previews as edits, so `edited_at` has to be recent. An edit is never a
        # command.
        is_new = self._app.clock.now() - edited_at < EDIT_IS_NEW_FOR
        return is_new and mentions_agent(message, self.me) and not to_text(message, self.me).startswith("/")

    async def on_raw_message_delete(self, payload: discord.RawMessageDeleteEvent) -> None:
        """Delete a stored message."""
        await self._delete(payload.channel_id, {payload.message_id})

    async def on_raw_bulk_message_delete(self, payload: discord.RawBulkMessageDeleteEvent) -> None:
        """Delete stored messages."""
        await self._delete(payload.channel_id, payload.message_ids)

    async def _delete(self, channel_id: int, message_ids: set[int]) -> None:
        self._listening.forget(channel_id, message_ids)
        with self._running.kept():
            async with self._locked(channel_id):
                # Wait until a message that is being stored can be found.
                pass
            await self._edits.delete(str(each) for each in message_ids)
        self._running.start(remove_stop_buttons(self._app.database, self._rest, message_ids), "deleted questions")

    def _locked(self, channel_id: int) -> asyncio.Lock:
        return self._locks.setdefault(channel_id, asyncio.Lock())

    async def _accept(self, message: discord.Message, sent_at: datetime | None = None) -> None:
        mention = await self._listening.find_mention(message, self.me)
        if message.guild is None:
            await self._directs.note(message.channel.id)
        if mention is None:
            return
        if message.guild is not None and isinstance(message.author, discord.User):
            await self._members.complete(message)
        if await self._is_command(message):
            return
        earlier = await self._listening.list_earlier(message, self.me, is_first=mention.is_first)
        thread_id = await self._open_thread(message) if mention.wants_thread else None
        incoming = to_incoming(message, self.me, earlier, thread_id=thread_id)
        await self._app.inbox.accept(replace(incoming, sent_at=sent_at or incoming.sent_at))
        self._listening.mark_known(message)

    async def _is_command(self, message: discord.Message) -> bool:
        """Answer a typed command and return whether it was one; a private answer is sent as a direct message."""
        text = to_text(message, self.me)
        if not text.startswith("/"):
            return False
        platform_context = to_platform_context(message.author, message.channel, message.guild)
        place = to_place(message.channel, message.guild)
        reply = await commands.answer(
            self._app, to_sender(message.author), place, text=text, platform_context=platform_context
        )
        if reply is None:
            return False
        try:
            channel = message.channel
            if reply.is_private and message.guild is not None:
                channel = await insist(message.author.create_dm)
            writer = ChannelWriter(self._rest, Place(PLATFORM, None, str(channel.id)), None)
            for index, (body, files) in enumerate(await to_bodies(self._app, reply, str(message.author.id))):
                await writer.write(body, f"c-{message.id}-{index}", files)
        except (Refused, Unavailable) as error:
            log.warning("command_not_answered", cause=str(error))
        return True

    async def _open_thread(self, message: discord.Message) -> str | None:
        """Open a thread for a question and return its id; None without the permission to open one."""
        asked = without_typed(to_text(message, self.me)).replace("\n", " ")
        name = asked.strip()[:THREAD_NAME_CHARS] or "Question"
        try:
            thread = await insist(lambda: message.create_thread(name=name, auto_archive_duration=1440))
        except Refused as error:
            # A message has at most one thread, which has the message's id: an earlier attempt has opened it.
            return str(message.id) if error.number == THREAD_EXISTS else None
        except Unavailable:
            return None
        return str(thread.id)
