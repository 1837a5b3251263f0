"""The history of places: messages that were written while no process listened, or that could not be stored."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adapters.slack.events.incoming import is_in_direct
from adapters.slack.transport.api import Json, Refused, Web
from adapters.slack.transport.limits import MOST_OBJECTS
from shared.db.statements import load_statements
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

PAGE = 200
MAX_WAIT = 300.0
# Of a channel, so much is kept at once: thousands of messages.
MOST_BYTES = 8 * 1024 * 1024

log = get_logger()
FindWeb = Callable[[str | None], Awaitable[Web | None]]


@dataclass(frozen=True, slots=True)
class Unread:
    """A channel to read, or with `thread` a thread in one; history does not tell whether it `is_direct`."""

    channel: str
    thread: str | None = None
    is_direct: bool = field(default=False, compare=False)


def to_unread(event: Json) -> Unread:
    """Return where the event of a message is found again."""
    thread = event.get("thread_ts")
    is_root = thread in (None, event.get("ts"))
    return Unread(event["channel"], None if is_root else str(thread), is_direct=is_in_direct(event))


async def list_teams(app: "App") -> Sequence[str]:
    """Return the workspaces with places to read, those that are on their way from this cell among them."""
    async with app.database.statement() as session:
        parameters = {"hours": app.settings.catch_up_hours}
        rows = (await session.execute(statements.list_teams, parameters)).all()
    return [row.team for row in rows]


async def list_places(app: "App", team: str) -> list[Unread]:
    """Return the places of a workspace where the agent has spoken of late: channels first, the latest first."""
    parameters = {"team": team, "hours": app.settings.catch_up_hours}
    async with app.database.statement() as session:
        channels = (await session.execute(statements.list_channels, parameters)).all()
        threads = (await session.execute(statements.list_threads, parameters)).all()
    places = [Unread(row.channel, is_direct=row.is_direct) for row in channels]
    return places + [Unread(row.channel, row.thread, is_direct=row.is_direct) for row in threads]


async def read_pages(web: Web, place: Unread, oldest: str) -> AsyncIterator[list[Json]]:
    """Yield a place's messages after a mark, the oldest first, as their events would show them.

    Slack gives a channel's latest first: pages beyond MOST_BYTES are read a second time. What Slack refuses is left
    out. Raises `Unavailable`.
    """
    where: Json = {"channel": place.channel, "oldest": oldest, "limit": PAGE}
    try:
        if place.thread is not None:
            async for page in _list_pages(web, "conversations.replies", where | {"ts": place.thread}):
                yield _to_events(page, place, oldest)
            return
        # Each with what it is before.
        pages: list[tuple[Json, list[Json] | None]] = []
        before, size = where, 0
        async for page in _list_pages(web, "conversations.history", where):
            size += len(json.dumps(page))
            if size > MOST_BYTES:
                pages, size = [(edge, None) for edge, _ in pages], 0
            pages.append((before, page))
            if page:
                before = where | {"latest": str(page[-1].get("ts"))}
        for edge, messages in reversed(pages):
            again = _list_pages(web, "conversations.history", edge)
            yield _to_events(await anext(again) if messages is None else messages, place, oldest)
    except Refused as error:
        log.warning("slack_channel_not_read", channel=place.channel, cause=str(error))


async def find_current(web: Web, event: Json) -> Json | None:
    """Return a message whose event comes again as it is now: edited perhaps; None if it was deleted meanwhile.

    Where Slack does not tell, it is returned as it came.
    """
    place, ts = to_unread(event), event["ts"]
    where: Json = {"channel": place.channel, "oldest": ts, "latest": ts, "inclusive": True, "limit": MOST_OBJECTS}
    if place.thread is None:
        page = await web.find("conversations.history", **where)
    else:
        page = await web.find("conversations.replies", **where, ts=place.thread)
    if page is None:
        return event
    return next(({**event, **message} for message in page["messages"] if message.get("ts") == ts), None)


async def _list_pages(web: Web, method: str, where: Json) -> AsyncIterator[list[Json]]:
    is_last = False
    while not is_last:
        page = await web.call(method, max_wait=MAX_WAIT, **where)
        yield page["messages"]
        cursor = (page.get("response_metadata") or {}).get("next_cursor")
        where, is_last = where | {"cursor": cursor}, not cursor


def _to_events(page: Sequence[Json], place: Unread, oldest: str) -> list[Json]:
    beside = {"channel": place.channel, "channel_type": "im" if place.is_direct else "channel"}
    messages = [{**message, **beside} for message in page if str(message.get("ts", "")) > oldest]
    return sorted(messages, key=lambda message: str(message["ts"]))
