"""After a stop: what was written meanwhile where the agent has talked is read, and what was for it is answered."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import text

from adapters.slack.events.checkpoint import to_ts
from adapters.slack.transport.api import Json, Web
from adapters.slack.transport.clients import Clients
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.app import App

MOST_PAGES, PAGE = 3, 200
MOST_CHANNELS, MOST_THREADS = 50, 50
PATIENCE = 300.0

# Channels are never listed: these are those where somebody has talked to it.
CHANNELS = text("""
SELECT platform_server_id AS team, platform_channel_id AS channel FROM conversations
WHERE platform = 'slack' AND last_active_at > now() - interval '30 days'
GROUP BY platform_server_id, platform_channel_id ORDER BY max(last_active_at) DESC LIMIT :most
""")
THREADS = text("""
SELECT platform_server_id AS team, platform_channel_id AS channel, platform_thread_id AS thread FROM conversations
WHERE platform = 'slack' AND platform_thread_id IS NOT NULL AND last_active_at > now() - interval '3 days'
ORDER BY last_active_at DESC LIMIT :most
""")

log = get_logger()
Take = Callable[[Json, Web], Awaitable[None]]
Thread = tuple[str | None, str, str]


async def catch_up(app: "App", clients: Clients, since: str, take: Take) -> int:
    """Take what was written since then, oldest first in each place; return how many messages were read."""
    oldest = max(since, to_ts(app.clock.now() - timedelta(hours=app.settings.catch_up_hours)))
    async with app.database.statement() as session:
        channels = (await session.execute(CHANNELS, {"most": MOST_CHANNELS})).all()
        known = (await session.execute(THREADS, {"most": MOST_THREADS})).all()
    threads: dict[Thread, None] = dict.fromkeys((row.team, row.channel, row.thread) for row in known)
    count = 0
    for row in channels:
        read = await _read(clients, row.team, take, "conversations.history", channel=row.channel, oldest=oldest)
        begun = [each for each in read if str(each.get("latest_reply", "")) > oldest]
        threads |= dict.fromkeys((row.team, row.channel, str(each["ts"])) for each in begun)
        count += len(read)
    for team, channel, thread in threads:
        given = {"channel": channel, "ts": thread, "oldest": oldest}
        count += len(await _read(clients, team, take, "conversations.replies", **given))
    if count:
        log.info("slack_caught_up", messages=count)
    return count


async def _read(clients: Clients, team: str | None, take: Take, method: str, **where: str) -> list[Json]:
    web = await clients.find(team)
    if web is None:
        return []
    found: list[Json] = []
    cursor: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        page = await web.find(method, patience=PATIENCE, limit=PAGE, **where, **cursor)
        found += (page or {}).get("messages", ())
        cursor = {"cursor": ((page or {}).get("response_metadata") or {}).get("next_cursor") or ""}
        if not cursor["cursor"]:
            break
    found = [each for each in found if str(each.get("ts", "")) > where["oldest"]]
    found.sort(key=lambda each: str(each["ts"]))
    for each in found:
        await take({**each, "channel": where["channel"]}, web)
    return found
