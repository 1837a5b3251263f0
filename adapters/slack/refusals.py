"""Tells people that nothing can be done for their workspace just now, wherever Slack has a place for a sentence."""

from adapters.slack.events.catch_up import FindWeb
from adapters.slack.interactions.respond import to_section
from adapters.slack.transport.api import Json
from shared.errors import ParleyError
from shared.log import get_logger

# The native stop button is a click, which nobody wants to have done minutes later.
STOPPED, HOME_OPENED = "agent_session_stopped", "app_home_opened"
NOTE, MOST_BLOCKS = "parley_note", 100

log = get_logger()


async def tell_refusal(find_web: FindWeb, team: str | None, body: Json, *, sentence: str) -> None:
    """Tell whoever has clicked in a view, opened the Home tab or stopped an answer; other events have no place."""
    event, view = body.get("event") or {}, body.get("view") or {}
    try:
        web = await find_web(team)
        if web is None:
            return
        if event.get("type") == STOPPED:
            where: Json = {
                "channel": event.get("channel"),
                "thread_ts": event.get("thread_ts"),
                "user": event.get("user"),
            }
            await web.call("chat.postEphemeral", **where, text=sentence)
        elif event.get("type") == HOME_OPENED and event.get("tab", "home") == "home":
            await web.call(
                "views.publish", user_id=event.get("user"), view=with_note(event.get("view") or {}, sentence)
            )
        elif view.get("type") == "home":
            await web.call("views.publish", user_id=body["user"]["id"], view=with_note(view, sentence))
        elif view:
            await web.call("views.update", view_id=view["id"], view=with_note(view, sentence))
    except ParleyError as error:
        log.info("slack_refusal_not_told", cause=str(error))


def with_note(view: Json, sentence: str) -> Json:
    """Return a view as it was shown, an empty Home if there was none, with a sentence above it."""
    blocks = [block for block in view.get("blocks") or () if block.get("block_id") != NOTE]
    kind = view.get("type", "home")
    fields = ("callback_id", "private_metadata", *(("title", "submit", "close") if kind == "modal" else ()))
    shown = {"type": kind, "blocks": [to_section(sentence) | {"block_id": NOTE}, *blocks][:MOST_BLOCKS]}
    return shown | {name: view[name] for name in fields if view.get(name)}
