"""Decides which messages are for the agent, and collects the messages before them."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

from cachetools import FIFOCache
from msgspec import Struct

from adapters.chat.addressing import Exchanges, Recent, Rules
from adapters.slack.events.directory import Directory
from adapters.slack.events.incoming import WRITTEN_BY_PEOPLE, list_people, to_addressing, to_event_id, to_quoted_message
from adapters.slack.transport.api import Json, Web
from shared.messages import Place, QuotedMessage

MOST_EARLIER, MOST_RECENT, MOST_REPLIES = 20, 10, 200
# Of a thread's earlier messages so many characters are shown, the last ones; Slack gives up to 999 replies at once.
EARLIER_CHARS, REPLIES_PER_PAGE = 10_000, 999
MOST_UNANSWERED = 10_000
FETCH_SECONDS = 1.2


class Mention(Struct, frozen=True):
    """A message that the agent answers. `is_first`: it is the agent's first one in this place."""

    is_first: bool


class Listening:
    """Applies the channel modes, and keeps the latest messages of each channel; one for all cells."""

    def __init__(self, directory: Directory, rules: Rules) -> None:
        self.directory, self._rules = directory, rules
        self._recent: Recent[str, Json] = Recent(MOST_EARLIER + 1)
        self._exchanges = Exchanges()
        self._unanswered: FIFOCache[str, None] = FIFOCache(MOST_UNANSWERED)
        # Messages of one thread are stored in order, however long the lookups for each of them take.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def locked(self, place: Place) -> asyncio.Lock:
        """Return the lock of a thread, or of what is said directly."""
        return self._locks.setdefault(place.key, asyncio.Lock())

    async def find_mention(self, event: Json, place: Place, web: Web) -> Mention | None:
        """Return a `Mention` if the message is for the agent, else None."""
        if place.is_direct and place.thread is None:
            # A direct message is always for the agent; skipping the query keeps the most frequent case fast.
            return Mention(is_first=False)
        rule = await self._rules.find(place)
        addressing = to_addressing(event, place, web.token)
        # In a history, the message that began a thread has its `thread_ts`: it was said outside of the thread.
        is_in_thread = event.get("thread_ts", event["ts"]) != event["ts"]
        takes_part = is_in_thread and (rule.is_known or event.get("parent_user_id") == web.token.bot_user_id)
        if not self._exchanges.is_for_agent(addressing, place, rule, takes_part=takes_part):
            if takes_part and rule.mode != "off":
                # The conversation does not contain it: it is context for the next message of the thread.
                self._unanswered[_event_key(event)] = None
            return None
        return Mention(is_first=not rule.is_known)

    async def list_unanswered(self, event: Json, web: Web) -> list[QuotedMessage]:
        """Return what people have said to each other in a thread of the agent since its last question."""
        messages = [message for message in self._list_kept(event) if _event_key(message) in self._unanswered]
        return await self._quote([message for message in messages if str(message["ts"]) < str(event["ts"])], web)

    def mark_read(self, event: Json) -> None:
        """Note that the conversation contains what was said before this message."""
        for message in self._list_kept(event):
            if str(message["ts"]) < str(event["ts"]):
                self._unanswered.pop(_event_key(message), None)

    def remember(self, event: Json) -> None:
        """Keep a channel message as context for the next mention."""
        self._recent.remember(event["channel"], str(event["ts"]), event, thread=event.get("thread_ts"))

    def correct(self, channel: str, message: Json) -> None:
        """Apply an edit to the kept messages."""
        self._recent.change(channel, {str(message["ts"])}, lambda earlier_message: {**earlier_message, **message})

    def forget(self, channel: str, ts: str) -> None:
        """Drop a deleted message."""
        self._recent.forget(channel, {ts})

    def _list_kept(self, event: Json) -> list[Json]:
        return list(self._recent.list_entries(event["channel"], event.get("thread_ts")).values())

    async def list_earlier(self, event: Json, web: Web) -> list[QuotedMessage]:
        """Return the earlier messages of the thread, or of the channel if the message starts a thread."""
        replies = await self._list_replies(event, web) if "thread_ts" in event else []
        most = MOST_REPLIES if "thread_ts" in event else MOST_RECENT
        # Slack shows some apps only the first messages of a thread: those that were seen here are added.
        messages = {str(reply["ts"]): reply for reply in (*self._list_kept(event), *replies)}
        before = [messages[ts] for ts in sorted(messages)]
        return await self._quote([message for message in before if str(message["ts"]) < str(event["ts"])][-most:], web)

    async def _quote(self, before: Sequence[Json], web: Web) -> list[QuotedMessage]:
        names = await self.directory.list_names(web, list_people(before))
        quotes = [to_quoted_message(message, web.token, names) for message in before]
        selection: deque[QuotedMessage] = deque()
        chars = 0
        for quote in reversed(quotes):
            chars += len(quote.text)
            if chars > EARLIER_CHARS:
                break
            if quote.text:
                selection.appendleft(quote)
        return list(selection)

    async def _list_replies(self, event: Json, web: Web) -> list[Json]:
        # Slack gives the oldest replies first, and the last ones are wanted.
        replies: deque[Json] = deque(maxlen=MOST_REPLIES)
        thread: Json = {"channel": event["channel"], "ts": event["thread_ts"], "latest": event["ts"]}
        has_more = True
        # The acknowledgement must be in time, even without the context.
        with suppress(TimeoutError):
            async with asyncio.timeout(FETCH_SECONDS):
                while has_more:
                    page = await web.find("conversations.replies", **thread, limit=REPLIES_PER_PAGE) or {}
                    # Slack's own notices are left out, such as the one that starts a thread in the assistant panel.
                    replies.extend(
                        {**reply, "channel": event["channel"]}
                        for reply in page.get("messages", [])
                        if "ts" in reply and reply.get("subtype") in (*WRITTEN_BY_PEOPLE, "bot_message")
                    )
                    thread["cursor"] = (page.get("response_metadata") or {}).get("next_cursor")
                    # Slack gives some apps the first page alone.
                    has_more = bool(thread["cursor"]) and not web.is_history_limited
        return list(replies)


def _event_key(event: Json) -> str:
    return to_event_id(str(event["channel"]), str(event["ts"]))
