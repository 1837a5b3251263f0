"""Decides which messages are for the agent, and collects the messages before them."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from adapters.slack.events.directory import Directory
from adapters.slack.events.incoming import WRITTEN_BY_PEOPLE, list_people, mentions_agent, to_quoted_message
from adapters.slack.transport.api import Json, Web
from shared.db.batching import BatchLoader
from shared.db.database import Database
from shared.messages import Place, QuotedMessage

MOST_EARLIER, MOST_RECENT, MOST_REPLIES = 20, 10, 200
REMEMBERED_CHANNELS = 1000
FETCH_SECONDS = 1.2

# For several places in one statement. The most specific rule applies: thread, channel, workspace. The agent takes part
# in a thread as soon as a message of it is stored, which is before the turn creates the conversation.
RULE = text("""
SELECT (
    SELECT mode FROM channel_modes
    WHERE platform = 'slack' AND coalesce(platform_server_id, server) = server
      AND (platform_channel_id IS NULL OR platform_channel_id IN (channel, thread))
    ORDER BY platform_channel_id IS NULL, platform_channel_id <> thread, platform_server_id IS NULL LIMIT 1
) AS mode, EXISTS (
    SELECT FROM conversations
    WHERE platform = 'slack' AND platform_server_id = server AND platform_channel_id = channel
      AND platform_thread_id IS NOT DISTINCT FROM nullif(thread, '')
) OR EXISTS (
    SELECT FROM inbox WHERE inbox.place_key = asked.place_key AND status IN ('waiting', 'claimed')
) AS is_known
FROM unnest(CAST(:servers AS text[]), CAST(:channels AS text[]), CAST(:threads AS text[]), CAST(:place_keys AS text[]))
     WITH ORDINALITY AS asked (server, channel, thread, place_key, number)
ORDER BY number
""")


@dataclass(frozen=True, slots=True)
class Mention:
    """A message that the agent answers. `is_first`: it is the agent's first one in this place."""

    is_first: bool


class Listening:
    """Applies the channel modes, and keeps the latest messages of each channel."""

    def __init__(self, database: Database, directory: Directory) -> None:
        self._database, self._directory = database, directory
        self._rules = BatchLoader(self._find_rules)
        self._recent: OrderedDict[str, deque[Json]] = OrderedDict()

    async def find_mention(self, event: Json, place: Place, web: Web) -> Mention | None:
        """Return a `Mention` if the message is for the agent, else None."""
        if place.is_direct and place.thread is None:
            # A direct message is always for the agent; skipping the query keeps the most frequent case fast.
            return Mention(is_first=False)
        mode, is_known = await self._rules.load(place)
        if mode == "off" and not place.is_direct:
            return None
        takes_part = "thread_ts" in event and (is_known or event.get("parent_user_id") == web.token.bot_user_id)
        if not (place.is_direct or mode == "always" or takes_part or mentions_agent(event, web.token)):
            return None
        return Mention(is_first=not is_known)

    async def _find_rules(self, places: Sequence[Place]) -> list[tuple[str | None, bool]]:
        given = {
            "servers": [each.server or "" for each in places],
            "channels": [each.channel for each in places],
            "threads": [each.thread or "" for each in places],
            "place_keys": [each.key for each in places],
        }
        async with self._database.statement() as session:
            return [(row.mode, row.is_known) for row in (await session.execute(RULE, given)).all()]

    def remember(self, event: Json) -> None:
        """Keep a channel message as context for the next mention."""
        kept = self._recent.setdefault(_key(event), deque(maxlen=MOST_EARLIER + 1))
        self._recent.move_to_end(_key(event))
        if all(each["ts"] != event["ts"] for each in kept):
            kept.append(event)
        if len(self._recent) > REMEMBERED_CHANNELS:
            self._recent.popitem(last=False)

    def correct(self, channel: str, message: Json) -> None:
        """Apply an edit to the kept messages."""
        for key, kept in self._recent.items():
            if key.startswith(channel):
                corrected = ({**each, **message} if each["ts"] == message["ts"] else each for each in kept)
                self._recent[key] = deque(corrected, kept.maxlen)

    def forget(self, channel: str, ts: str) -> None:
        """Drop a deleted message."""
        for key, kept in self._recent.items():
            if key.startswith(channel):
                self._recent[key] = deque((each for each in kept if each["ts"] != ts), kept.maxlen)

    async def list_earlier(self, event: Json, web: Web) -> list[QuotedMessage]:
        """Return the earlier messages of the thread, or of the channel if the message starts a thread."""
        found = await self._list_replies(event, web) if "thread_ts" in event else None
        most = MOST_EARLIER if "thread_ts" in event else MOST_RECENT
        # Slack shows some apps only the first messages of a thread: those that were seen here are added.
        seen = {str(each["ts"]): each for each in (*self._recent.get(_key(event), ()), *(found or ()))}
        before = [seen[ts] for ts in sorted(seen)]
        before = [each for each in before if str(each["ts"]) < str(event["ts"])][-most:]
        names = await self._directory.list_names(web, list_people(before))
        shown = [each for each in before if each.get("text") or each.get("files")]
        return [to_quoted_message(each, web.token, names) for each in shown]

    async def _list_replies(self, event: Json, web: Web) -> list[Json] | None:
        try:
            # The acknowledgement must be in time, even without the context.
            async with asyncio.timeout(FETCH_SECONDS):
                found = await web.find(
                    "conversations.replies", channel=event["channel"], ts=event["thread_ts"], limit=MOST_REPLIES
                )
        except TimeoutError:
            return None
        return (
            None
            if found is None
            else [{**each, "channel": event["channel"]} for each in found.get("messages", ()) if _is_chat_message(each)]
        )


def _is_chat_message(message: Json) -> bool:
    # Slack's own notices are left out, such as the one that starts a thread in the assistant panel.
    return "ts" in message and message.get("subtype") in (*WRITTEN_BY_PEOPLE, "bot_message")


def _key(event: Json) -> str:
    return f"{event['channel']}:{event.get('thread_ts') or ''}"
