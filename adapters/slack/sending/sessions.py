"""The status of a thread while the agent works: that of an agent session, or for older apps a line of text."""

from typing import TYPE_CHECKING

from adapters.slack.transport.api import MAX_WAIT, Json, Refused, Web
from shared.errors import Unavailable
from shared.log import get_logger

if TYPE_CHECKING:
    from agent.queue.outbox import Reply
    from shared.messages import Place

STATUS = "is thinking …"
ATTEMPTS = 3
# Slack's answers to an app that is no agent; from then on the older method is called.
NO_AGENT = frozenset({"not_authorized", "unknown_method", "feature_disabled", "feature_not_enabled", "missing_scope"})

log = get_logger()


async def set_processing(web: Web, place: "Place") -> None:
    """Show that the agent works; a failure is ignored."""
    where: Json = {"channel_id": place.channel, "thread_ts": place.thread}
    if web.is_agent:
        try:
            await web.call("agents.sessions.setStatus", max_wait=0, status="processing", **where)
            return
        except Unavailable:
            return
        except Refused as error:
            web.is_agent = error.slack_code not in NO_AGENT
    await web.find("assistant.threads.setStatus", status=STATUS, **where)


def status_after(reply: "Reply") -> str:
    """Return the status of a session after a reply: it is suspended while somebody is asked."""
    return "suspended" if reply.choices else "active"


async def set_finished(web: Web, place: "Place", status: str) -> None:
    """Show that the agent has finished: unlike the line of text, the status of a session does not end by itself."""
    for _ in range(ATTEMPTS):
        if await try_finished(web, place, status, max_wait=MAX_WAIT):
            return


async def try_finished(web: Web, place: "Place", status: str, *, max_wait: float = 0.0) -> bool:
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
