"""Accepts messages from Slack; an event is acknowledged after its message is stored."""

import re
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from cachetools import FIFOCache
from msgspec.structs import replace
from slack_bolt.async_app import AsyncApp

from adapters.base import STORE_SECONDS, Running
from adapters.chat.intake import Edits, to_context
from adapters.slack.events.agent_view import AgentView, set_title
from adapters.slack.events.catch_up import find_current
from adapters.slack.events.commands import answer_command
from adapters.slack.events.groups import Groups
from adapters.slack.events.incoming import (
    PLATFORM,
    is_in_direct,
    is_written_by_a_person,
    is_written_by_an_app,
    list_people,
    mentions_agent,
    to_account,
    to_event_id,
    to_incoming,
    to_moment,
    to_place,
    to_team,
    to_text,
)
from adapters.slack.events.listening import Listening
from adapters.slack.sending.buttons import replace_buttons
from adapters.slack.transport.api import Json, Web
from adapters.slack.transport.clients import Clients
from agent.commands import match_command
from shared.db.database import retry_on_lost_db
from shared.errors import EventIdInUse
from shared.text import to_command_line

if TYPE_CHECKING:
    from adapters.cells.routes import Cells
    from agent.app import App

REMEMBERED = 5000
EDIT_IS_NEW_FOR = timedelta(minutes=5)
TOMBSTONE, NO_TITLE = "tombstone", "Conversation"
# A header: how often this was refused before.
REPEATED = "x-slack-retry-num"
TS = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")


def register(bolt: AsyncApp, events: "Events") -> None:
    """Register the listeners for messages and mentions."""
    bolt.event("message")(events.on_message)
    bolt.event("app_mention")(events.on_message)


class Events:
    """Accepts each message once, however many events contain it; with `cells`, for the workspaces of one of them."""

    def __init__(
        self, app: "App", clients: Clients, running: Running, *, listening: Listening, cells: "Cells | None" = None
    ) -> None:
        self._app, self._clients, self._running, self._cells = app, clients, running, cells
        self._listening, self.directory = listening, listening.directory
        self.agent_view = AgentView(app.database)
        self.groups = Groups(app.database, clients, app.clock)
        self._edits = Edits(app, PLATFORM, cells=cells)
        self._accepted: FIFOCache[str, None] = FIFOCache(REMEMBERED)

    async def on_message(self, event: Json, context: Any, request: Any) -> None:
        """Accept a message, an edit or a deletion."""
        web = await self._clients.find(context.team_id)
        if web is None or not isinstance(event.get("channel"), str):
            return
        with self._running.kept():
            current: Json | None = event
            if request.headers.get(REPEATED, ["0"]) != ["0"]:
                current = await self._find_current(event, web)
            if current is not None:
                await self.accept(current, web)

    async def _find_current(self, event: Json, web: Web) -> Json | None:
        """Return an event that comes again as it would be now; None if its message was deleted meanwhile."""
        if event.get("subtype") == "message_changed":
            message = {**(event.get("message") or {}), "channel": event["channel"]}
            current = await find_current(web, message) if is_message(message, web) else message
            return current and {**event, "message": current}
        return await find_current(web, event) if is_message(event, web) and not self._is_accepted(event) else event

    async def accept(self, event: Json, web: Web) -> None:
        """Accept a message, an edit or a deletion, depending on the event's subtype."""
        kind = event.get("subtype")
        if kind == "message_changed":
            await self._accept_edit(event, web)
        elif kind == "message_deleted":
            message = {**(event.get("previous_message") or {}), "ts": str(event.get("deleted_ts"))}
            await self._delete({**message, "channel": event["channel"]}, web)
        elif is_message(event, web):
            event = await self.agent_view.to_event(event, web)
            place = to_place(event, web.token)
            async with self._listening.locked(place):
                await self._accept_once(event, web)
            if not place.is_direct:
                self._listening.remember(event)
        elif is_written_by_an_app(event, web.token) and TS.fullmatch(str(event.get("ts"))) and not is_in_direct(event):
            self._listening.remember(event)

    async def _accept_edit(self, event: Json, web: Web) -> None:
        """Apply an edit; if the message mentions the agent only since the edit, accept it as a new message."""
        message = {"channel_type": event.get("channel_type"), **(event.get("message") or {})}
        message["channel"] = event["channel"]
        if message.get("subtype") == TOMBSTONE:
            # A deleted message that has replies is changed to this subtype.
            await self._delete(message, web)
            return
        # Slack also reports link previews and new replies as changes; those have no new `edited`.
        edit_ts = (message.get("edited") or {}).get("ts")
        if not is_message(message, web) or not TS.fullmatch(str(edit_ts)):
            return
        self._listening.correct(event["channel"], message)
        message = await self.agent_view.to_event(message, web)
        place = to_place(message, web.token)
        async with self._listening.locked(place):
            names = await self.directory.list_names(web, list_people([message]))
            event_id = to_event_id(message["channel"], message["ts"])
            question = await self._edits.change(place, event_id, to_text(message, web.token.bot_user_id, names))
            # An edit is never a command.
            is_command = match_command(to_text(message, web.token.bot_user_id, {})) is not None
            if question is None and mentions_agent(message, web.token) and not is_command:
                edited_at = to_moment(str(edit_ts))
                if self._app.clock.now() - edited_at < EDIT_IS_NEW_FOR:
                    await self._accept_once(message, web, sent_at=edited_at)
        if question is not None and question.turn_id is not None:
            asker = to_account(str(message["user"]), to_team(message, web.token), web.token)
            self._running.start(
                self._edits.offer_again(question.turn_id, asker, partial(replace_buttons, web)), "offer again"
            )

    async def _delete(self, message: Json, web: Web) -> None:
        channel, ts = message["channel"], str(message.get("ts"))
        self._listening.forget(channel, ts)
        async with self._listening.locked(to_place({**message, "ts": ts}, web.token)):
            # Wait until a message that is being stored can be found.
            pass
        # Deleting may retry, and the acknowledgement shouldn't wait for it.
        self._running.start(self._redact(channel, ts, web, thread=str(message.get("thread_ts") or ts)), "redaction")

    async def _redact(self, channel: str, ts: str, web: Web, thread: str) -> None:
        if await self._edits.delete([to_event_id(channel, ts)]) and web.is_agent:
            # The title of the session may be the question.
            await web.find("agents.sessions.rename", channel_id=channel, thread_ts=thread, title=NO_TITLE)

    async def _accept_once(self, event: Json, web: Web, sent_at: datetime | None = None) -> None:
        # Slack sends a mention both as `app_mention` and as `message`; the second one needs no query.
        if self._is_accepted(event):
            return
        with suppress(EventIdInUse):
            if not await retry_on_lost_db(lambda: self._store(event, web, sent_at), STORE_SECONDS):
                return
        self._accepted[to_event_id(event["channel"], event["ts"])] = None

    def _is_accepted(self, event: Json) -> bool:
        return to_event_id(event["channel"], event["ts"]) in self._accepted

    async def _store(self, event: Json, web: Web, sent_at: datetime | None) -> bool:
        """Store a message if it is for the agent; return whether it was."""
        place = to_place(event, web.token)
        mention = await self._listening.find_mention(event, place, web)
        if mention is None:
            return False
        has_earlier = mention.is_first and not (place.is_direct and is_root(event))
        if has_earlier:
            earlier = await self._listening.list_earlier(event, web)
        else:
            earlier = await self._listening.list_unanswered(event, web)
        people = await self.directory.list_names(web, list_people([event]))
        groups = await self.groups.find(web.token.team_id, str(event["user"]), home=to_team(event, web.token))
        role_ids, roles = (None, ()) if groups is None else groups
        names: dict[str, str | None] = {}
        if not place.is_direct:
            channel = await self.directory.find_channel(web, event["channel"])
            names = {"server_name": web.token.team_name, "channel_name": channel.name, "topic": channel.topic}
        context = to_context(roles, role_ids, earlier=earlier, **names)
        event = await self.directory.with_files(web, event)
        message = to_incoming(event, web.token, people, platform_context=context)
        message = replace(message, sent_at=sent_at or message.sent_at)
        if to_command_line(message.content) is not None and await answer_command(
            self._app, web, message, cells=self._cells
        ):
            return True
        # What is set for the channel is where the workspace comes from, its new messages may be stored where it goes.
        accepted = await (self._app.inbox if self._cells is None else self._cells).accept(message)
        self._listening.mark_read(event)
        place = message.place
        # A thread of the panel begins with a message of the app.
        is_panel = place.is_direct and event.get("parent_user_id") == web.token.bot_user_id
        if accepted.is_new and mention.is_first and is_panel and place.thread is not None:
            self._running.start(set_title(web, place.channel, place.thread, question=message.content), "title")
        return True


def is_root(event: Json) -> bool:
    """Return whether a message is the first of its thread."""
    return event.get("thread_ts") == event.get("ts")


def is_message(event: Json, web: Web) -> bool:
    """Return whether a person wrote this event's message and its timestamp is valid."""
    return is_written_by_a_person(event, web.token) and bool(TS.fullmatch(str(event.get("ts"))))
