"""What Slack tells becomes messages in the inbox; the acknowledgement goes out when they are stored."""

import asyncio
import re
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from slack_bolt.async_app import AsyncApp

from adapters.base import STORE_SECONDS
from adapters.chat.edits import Edits
from adapters.chat.running import Running
from adapters.slack.events.assistant import entitle
from adapters.slack.events.directory import Directory
from adapters.slack.events.groups import Groups
from adapters.slack.events.incoming import (
    PLATFORM,
    TOPIC_CHARS,
    calls,
    is_written_by_a_person,
    list_people,
    to_account,
    to_event_id,
    to_incoming,
    to_moment,
    to_place,
    to_team,
    to_text,
)
from adapters.slack.events.listening import Listening
from adapters.slack.events.typed_commands import TypedCommands
from adapters.slack.sending.buttons import replace_buttons
from adapters.slack.transport.api import Json, Web
from adapters.slack.transport.clients import Clients
from agent.queue.inbox import accept_all
from shared.db.batching import BatchLoader
from shared.db.retries import retry_on_lost_db
from shared.errors import EventTaken
from shared.messages import Place, PlatformContext, QuotedMessage
from shared.text import clean, cut

if TYPE_CHECKING:
    from agent.app import App

REMEMBERED = 5000
EDIT_IS_NEW_FOR = timedelta(minutes=5)
TOMBSTONE = "tombstone"
TS = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")


def register(bolt: AsyncApp, events: "Events") -> None:
    """Listen to messages and mentions."""
    bolt.event("message")(events.on_message)
    bolt.event("app_mention")(events.on_message)


class Events:
    """Takes messages, each once, whatever number of events brings it."""

    def __init__(self, app: "App", clients: Clients, running: Running) -> None:
        self._app, self._clients, self._running = app, clients, running
        self.directory = Directory(app.clock, running)
        self.groups = Groups(app.database, clients, app.clock)
        self._listening = Listening(app.database, self.directory)
        self._edits, self._typed = Edits(app, PLATFORM), TypedCommands(app)
        self._inbox = BatchLoader(partial(accept_all, app.database))
        self._taken: OrderedDict[str, None] = OrderedDict()
        # Messages of one thread are taken one after the other, whatever is fetched for them in between.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def on_message(self, event: Json, context: Any) -> None:
        """Take a message, or the news that one was changed or deleted."""
        web = await self._clients.find(context.team_id)
        if web is None or not isinstance(event.get("channel"), str):
            return
        with self._running.kept():
            await self.take(event, web)

    async def take_missed(self, missed: tuple[Json, Web]) -> None:
        """Take a message from the history of a channel."""
        await self.take(*missed)

    async def take(self, event: Json, web: Web) -> None:
        """Take an event."""
        kind = event.get("subtype")
        if kind == "message_changed":
            await self._take_change(event, web)
        elif kind == "message_deleted":
            gone = {**(event.get("previous_message") or {}), "ts": str(event.get("deleted_ts"))}
            await self._forget({**gone, "channel": event["channel"]}, web)
        elif is_message(event, web):
            place = to_place(event, web.token)
            async with self._locked(place):
                await self._take_once(event, web)
            if not place.is_direct:
                self._listening.remember(event)

    async def _take_change(self, event: Json, web: Web) -> None:
        """Take a changed text; one that calls the agent only now is a new message."""
        message = {"channel_type": event.get("channel_type"), **(event.get("message") or {})}
        message["channel"] = event["channel"]
        if message.get("subtype") == TOMBSTONE:
            # The first message of a thread that has replies leaves this behind when it is deleted.
            await self._forget(message, web)
            return
        # Slack tells of previews and of answers in the thread in the same way: nobody has written those.
        edited = (message.get("edited") or {}).get("ts")
        if not is_message(message, web) or not TS.fullmatch(str(edited)):
            return
        self._listening.correct(event["channel"], message)
        async with self._locked(to_place(message, web.token)):
            names = await self.directory.list_names(web, list_people([message]))
            event_id = to_event_id(message["channel"], message["ts"])
            known = await self._edits.change(event_id, to_text(message, web.token.bot_user_id, names))
            if known is None and self._calls_only_now(message, str(edited), web):
                await self._take_once(message, web, sent_at=to_moment(str(edited)))
        if known is not None and known.turn_id is not None:
            asker = to_account(str(message["user"]), to_team(message, web.token), web.token)
            self._running.start(
                self._edits.offer_again(known.turn_id, asker, partial(replace_buttons, web)), "offer again"
            )

    def _calls_only_now(self, message: Json, edited: str, web: Web) -> bool:
        # Nobody gives a command by correcting a text.
        is_new = self._app.clock.now() - to_moment(edited) < EDIT_IS_NEW_FOR
        is_command = to_text(message, web.token.bot_user_id, {}).startswith("/")
        return is_new and calls(message, web.token) and not is_command

    async def _forget(self, message: Json, web: Web) -> None:
        channel, ts = message["channel"], str(message.get("ts"))
        self._listening.forget(channel, ts)
        async with self._locked(to_place({**message, "ts": ts}, web.token)):
            # What was being stored just now is stored, and found.
            pass
        # It may look a second time, for which Slack need not wait.
        self._running.start(self._edits.delete([to_event_id(channel, ts)]), "redaction")

    def _locked(self, place: Place) -> asyncio.Lock:
        return self._locks.setdefault(place.key, asyncio.Lock())

    async def _take_once(self, event: Json, web: Web, sent_at: datetime | None = None) -> None:
        # A mention comes twice, as what it is and as a message: the second is known without asking the database.
        key = to_event_id(event["channel"], event["ts"])
        if key in self._taken:
            return
        with suppress(EventTaken):
            if not await retry_on_lost_db(lambda: self._store(event, web, sent_at), STORE_SECONDS):
                return
        self._taken[key] = None
        if len(self._taken) > REMEMBERED:
            self._taken.popitem(last=False)

    async def _store(self, event: Json, web: Web, sent_at: datetime | None) -> bool:
        """Store a message that is for the agent; False when it is for others."""
        mention = await self._listening.find_mention(event, to_place(event, web.token), web)
        if mention is None:
            return False
        earlier = await self._listening.list_earlier(event, web) if mention.is_first else []
        names = await self.directory.list_names(web, list_people([event]))
        around = await self._platform_context(event, web, earlier)
        event = await self.directory.with_files(web, event)
        message = to_incoming(event, web.token, names, around)
        message = replace(message, sent_at=sent_at or message.sent_at)
        if await self._typed.answer(message, web):
            return True
        accepted = await self._inbox.load(message)
        place = message.place
        # A thread of the panel is begun by the app, with a message that nobody wrote.
        is_panel = place.is_direct and event.get("parent_user_id") == web.token.bot_user_id
        if accepted.is_new and mention.is_first and is_panel and place.thread is not None:
            self._running.start(entitle(web, place.channel, place.thread, message.content), "title")
        return True

    async def _platform_context(self, event: Json, web: Web, earlier: list[QuotedMessage]) -> PlatformContext:
        roles, role_ids = await self._roles(event, web)
        if to_place(event, web.token).is_direct:
            return PlatformContext(roles=roles, role_ids=role_ids, earlier=tuple(earlier))
        room = await self.directory.find_room(web, event["channel"])
        return PlatformContext(
            roles=roles,
            role_ids=role_ids,
            server_name=clean(web.token.team_name) if web.token.team_name else None,
            channel_name=clean(room.name) if room.name else None,
            topic=cut(clean(room.topic), TOPIC_CHARS) if room.topic else None,
            earlier=tuple(earlier),
        )

    async def _roles(self, event: Json, web: Web) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
        # A guest of another workspace has no groups here.
        is_member = to_team(event, web.token) == web.token.team_id
        found = await self.groups.find(web.token.team_id, str(event["user"])) if is_member else ((), ())
        return ((), None) if found is None else (tuple(clean(each) for each in found[1]), found[0])


def is_message(event: Json, web: Web) -> bool:
    """Tell whether this is something that a person has written, and whole."""
    return is_written_by_a_person(event, web.token) and bool(TS.fullmatch(str(event.get("ts"))))
