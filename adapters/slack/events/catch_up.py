"""Messages that were written while no process listened, read from the history of known places."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from adapters.base import FIRST_WAIT, LONGEST_WAIT
from adapters.chat.checkpoint import oldest_missed, to_mark
from adapters.slack.transport.api import Json, Refused, Web
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

PAGE = 200
MAX_WAIT = 300.0
# Reading ends after this time: what somebody wrote is answered soon or, as people have gone on, not at all.
READ_SECONDS = 3600.0


log = get_logger()
FindWeb = Callable[[str | None], Awaitable[Web | None]]


class Unread(Struct, frozen=True):
    """A channel to read, or with `thread` a thread in one; `kind` is the type that its events would name."""

    team: str | None
    channel: str
    thread: str | None
    kind: str


async def list_missed(
    app: "App", find_web: FindWeb, since: str, *, team: str | None = None, seconds: float = READ_SECONDS
) -> AsyncIterator[tuple[Json, Web]]:
    """Yield the messages after the mark `since` with their workspace's client, oldest first in each place.

    `team`: of one workspace alone.

    All places are read, at the pace that Slack's rate limits allow, for at most so many seconds. One that can't be read
    just then is read again after the others.
    """
    until = app.clock.monotonic() + seconds
    oldest = max(since, to_mark(oldest_missed(app)), key=float)
    parameters = {"team": team, "hours": app.settings.catch_up_hours}
    async with app.database.statement() as session:
        channels = (await session.execute(statements.list_channels, parameters)).all()
        threads = (await session.execute(statements.list_threads, parameters)).all()
    # History does not tell what kind of channel it is from.
    kinds = {row.channel: "im" if row.is_direct else "channel" for row in (*channels, *threads)}
    places = [Unread(row.team, row.channel, None, kind=kinds[row.channel]) for row in channels]
    places += [Unread(row.team, row.channel, row.thread, kind=kinds[row.channel]) for row in threads]
    queue, all_places, wait = deque(places), set(places), FIRST_WAIT
    while queue:
        if app.clock.monotonic() > until:
            in_channels = sum(place.thread is None for place in queue)
            log.warning("slack_places_not_read", channels=in_channels, threads=len(queue) - in_channels)
            return
        place = queue.popleft()
        try:
            messages = await _read(find_web, place, oldest)
        except Unavailable as error:
            log.warning("slack_channel_not_read", channel=place.channel, cause=str(error), again_in=wait)
            queue.append(place)
            await asyncio.sleep(wait)
            wait = min(LONGEST_WAIT, wait * 2)
            continue
        wait = FIRST_WAIT
        for message, web in messages:
            thread = Unread(place.team, place.channel, str(message["ts"]), kind=place.kind)
            if place.thread is None and str(message.get("latest_reply", "")) > oldest and thread not in all_places:
                all_places.add(thread)
                queue.append(thread)
            yield message, web


async def _read(find_web: FindWeb, place: Unread, oldest: str) -> list[tuple[Json, Web]]:
    """Return a place's messages since then; none if Slack refuses them. Raises `Unavailable`."""
    web = await find_web(place.team)
    if web is None:
        return []
    method = "conversations.history" if place.thread is None else "conversations.replies"
    where: Json = {"channel": place.channel, "oldest": oldest, "limit": PAGE}
    if place.thread is not None:
        where["ts"] = place.thread
    history: list[Json] = []
    try:
        while True:
            page = await web.call(method, max_wait=MAX_WAIT, **where)
            history += page.get("messages", ())
            where["cursor"] = (page.get("response_metadata") or {}).get("next_cursor")
            if not where["cursor"]:
                break
    except Refused as error:
        log.warning("slack_channel_not_read", channel=place.channel, cause=str(error))
    beside = {"channel": place.channel, "channel_type": place.kind}
    messages = [{**message, **beside} for message in history if str(message.get("ts", "")) > oldest]
    return [(message, web) for message in sorted(messages, key=lambda message: str(message["ts"]))]
