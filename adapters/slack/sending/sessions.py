"""The status of a thread while the agent works: that of an agent session, or for older apps a line of text."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from adapters.slack.transport.api import MAX_WAIT, Json, Refused, Web
from shared.db.statements import load_statements
from shared.errors import ParleyError, Unavailable
from shared.log import get_logger
from shared.messages import Place
from shared.text import abbreviate, without_credential

statements = load_statements(__file__)

if TYPE_CHECKING:
    from adapters.slack.transport.clients import Clients
    from agent.app import App
    from agent.queue.outbox import Reply

STATUS = "is thinking …"
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 60.0
TITLE_CHARS = 60
# How often unanswered questions are looked for, and how far back after a start.
LOOK_SECONDS, LONGEST_DOWNTIME = 15.0, timedelta(days=1)
# Slack's answers to an app that is no agent; from then on the older method is called.
NO_AGENT = frozenset({"not_authorized", "unknown_method", "feature_disabled", "feature_not_enabled", "missing_scope"})


log = get_logger()


def to_title(question: str) -> str:
    """Return a question as the title of its conversation."""
    return abbreviate(" ".join(without_credential(question).split()), TITLE_CHARS) or "Question"


async def set_processing(web: Web, place: Place, question: str) -> None:
    """Show that the agent works; a failure is ignored. A session that begins has the question as its title."""
    where: Json = {"channel_id": place.channel, "thread_ts": place.thread}
    web.finishing.pop((place.channel, place.thread), None)
    if web.is_agent:
        try:
            title = to_title(question)
            await web.call("agents.sessions.setStatus", max_wait=0, status="processing", title=title, **where)
            return
        except Unavailable:
            return
        except Refused as error:
            web.is_agent = error.platform_code not in NO_AGENT
    await web.find("assistant.threads.setStatus", status=STATUS, **where)


def status_after(reply: "Reply") -> str:
    """Return the status of a session after a reply: it is suspended while somebody there is asked for a yes."""
    return "suspended" if reply.delivery.has_open_question else "active"


async def set_finished(web: Web, place: Place, status: str, *, hours: float) -> None:
    """Show that the agent has finished: unlike the line of text, the status of a session does not end by itself.

    Tried for as long as an answer is, or until the thread gets another status.
    """
    thread, attempt = (place.channel, place.thread), object()
    web.finishing[thread] = attempt
    clock, pause = asyncio.get_running_loop(), FIRST_PAUSE_SECONDS
    until = clock.time() + hours * 3600
    while web.finishing.get(thread) is attempt and not await try_finished(web, place, status, max_wait=MAX_WAIT):
        if clock.time() > until:
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
    if web.finishing.get(thread) is attempt:
        del web.finishing[thread]


async def try_finished(web: Web, place: Place, status: str, *, max_wait: float = 0.0) -> bool:
    """Do the same once; return False if Slack limits the calls or can't be reached."""
    if not web.is_agent:
        return True
    where: Json = {"channel_id": place.channel, "thread_ts": place.thread}
    try:
        await web.call("agents.sessions.setStatus", max_wait=max_wait, status=status, **where)
    except (Refused, Unavailable) as error:
        log.info("slack_status_not_set", cause=str(error))
        return isinstance(error, Refused)
    return True


async def end_suspensions(app: "App", clients: "Clients") -> None:
    """Take back the status of sessions whose question nobody has answered in time, until cancelled."""
    since = app.clock.now() - LONGEST_DOWNTIME
    while True:
        with suppress(ParleyError):
            since = await _end_between(app, clients, since)
        await asyncio.sleep(LOOK_SECONDS)


async def _end_between(app: "App", clients: "Clients", since: datetime) -> datetime:
    """Take it back where the time was over since then; return up to when it is taken back everywhere."""
    now = app.clock.now()
    since = max(since, now - LONGEST_DOWNTIME)
    async with app.database.statement() as session:
        rows = (await session.execute(statements.list_unanswered, {"since": since, "now": now})).all()
    is_done = True
    for row in rows:
        web = await clients.find(row.team)
        if web is not None:
            place = Place("slack", row.team, row.channel, thread=row.thread)
            is_done = await try_finished(web, place, "active", max_wait=MAX_WAIT) and is_done
    return now if is_done else since
