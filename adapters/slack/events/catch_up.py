"""Messages that were written while no process listened, read from the history of known places."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from adapters.base import FIRST_WAIT, LONGEST_WAIT
from adapters.chat.checkpoint import oldest_missed, to_mark
from adapters.slack.transport.api import Json, Refused, Web
from adapters.slack.transport.clients import Clients
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App

PAGE = 200
MAX_WAIT = 300.0
# Reading ends after this time: what somebody wrote is answered soon or, as people have gone on, not at all.
READ_SECONDS = 3600.0

# Slack is not asked for all channels: only those with a recent conversation are read, the latest first. What was
# written in a place is at most CATCH_UP_HOURS old, but the place itself may have been quiet for longer before.
CHANNELS = text("""
SELECT platform_server_id AS team, platform_channel_id AS channel, bool_and(is_direct) AS is_direct FROM conversations
WHERE platform = 'slack' AND last_active_at > now() - :hours * interval '1 hour' - interval '30 days'
GROUP BY platform_server_id, platform_channel_id ORDER BY max(last_active_at) DESC
""")
THREADS = text("""
SELECT platform_server_id AS team, platform_channel_id AS channel, platform_thread_id AS thread, is_direct
FROM conversations
WHERE platform = 'slack' AND platform_thread_id IS NOT NULL
  AND last_active_at > now() - :hours * interval '1 hour' - interval '3 days'
ORDER BY last_active_at DESC
""")

log = get_logger()
Thread = tuple[str | None, str, str]


async def list_missed(app: "App", clients: Clients, since: str) -> AsyncIterator[tuple[Json, Web]]:
    """Yield the messages after the mark `since` with their workspace's client, oldest first in each place.

    All places are read, at the pace that Slack's rate limits allow, for at most READ_SECONDS.
    """
    until = app.clock.monotonic() + READ_SECONDS
    oldest = max(since, to_mark(oldest_missed(app)))
    async with app.database.statement() as session:
        channels = (await session.execute(CHANNELS, {"hours": app.settings.catch_up_hours})).all()
        known = (await session.execute(THREADS, {"hours": app.settings.catch_up_hours})).all()
    # History does not tell what kind of channel it is from.
    kinds = {row.channel: "im" if row.is_direct else "channel" for row in (*channels, *known)}
    threads: dict[Thread, None] = dict.fromkeys((row.team, row.channel, row.thread) for row in known)
    for number, row in enumerate(channels):
        if app.clock.monotonic() > until:
            log.warning("slack_places_not_read", channels=len(channels) - number, threads=len(threads))
            return
        where = {"channel": row.channel, "oldest": oldest}
        async for each, web in _read(clients, row.team, "conversations.history", **where):
            if str(each.get("latest_reply", "")) > oldest:
                threads[(row.team, row.channel, str(each["ts"]))] = None
            yield {**each, "channel_type": kinds[row.channel]}, web
    for number, (team, channel, thread) in enumerate(threads):
        if app.clock.monotonic() > until:
            log.warning("slack_places_not_read", channels=0, threads=len(threads) - number)
            return
        where = {"channel": channel, "ts": thread, "oldest": oldest}
        async for each, web in _read(clients, team, "conversations.replies", **where):
            yield {**each, "channel_type": kinds[channel]}, web


async def _read(clients: Clients, team: str | None, method: str, **where: str) -> AsyncIterator[tuple[Json, Web]]:
    web = await clients.find(team)
    if web is None:
        return
    found: list[Json] = []
    cursor: dict[str, str] = {}
    while True:
        page = await _insist(web, method, **where, **cursor)
        found += page.get("messages", ())
        cursor = {"cursor": (page.get("response_metadata") or {}).get("next_cursor") or ""}
        if not cursor["cursor"]:
            break
    found = [each for each in found if str(each.get("ts", "")) > where["oldest"]]
    found.sort(key=lambda each: str(each["ts"]))
    for each in found:
        yield {**each, "channel": where["channel"]}, web


async def _insist(web: Web, method: str, **where: Any) -> Json:
    """Return a page of messages; tried again until Slack gives or refuses it. A refused one is empty."""
    wait = FIRST_WAIT
    while True:
        try:
            return await web.call(method, max_wait=MAX_WAIT, limit=PAGE, **where)
        except Refused as error:
            log.warning("slack_channel_not_read", channel=where["channel"], cause=str(error))
            return {}
        except Unavailable as error:
            log.warning("slack_channel_not_read", channel=where["channel"], cause=str(error), again_in=wait)
            await asyncio.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 2)
