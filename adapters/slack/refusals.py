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
    call = to_call(body, sentence)
    if call is None:
        return
    method, arguments = call
    try:
        if (web := await find_web(team)) is not None:
            await web.call(method, **arguments)
    except ParleyError as error:
        log.info("slack_refusal_not_told", cause=str(error))


def to_call(body: Json, sentence: str) -> tuple[str, Json] | None:
    """Return the method of Slack, with its arguments, that shows a sentence to whoever has sent a request."""
    event, view = body.get("event") or {}, body.get("view") or {}
    if event.get("type") == STOPPED:
        where = {name: event.get(name) for name in ("channel", "thread_ts", "user")}
        return "chat.postEphemeral", where | {"text": sentence}
    if event.get("type") == HOME_OPENED and event.get("tab", "home") == "home":
        return "views.publish", {"user_id": event.get("user"), "view": with_note(event.get("view") or {}, sentence)}
    if view.get("type") == "home":
        return "views.publish", {"user_id": body["user"]["id"], "view": with_note(view, sentence)}
    return ("views.update", {"view_id": view["id"], "view": with_note(view, sentence)}) if view else None


def with_note(view: Json, sentence: str) -> Json:
    """Return a view as it was shown, an empty Home if there was none, with a sentence above it."""
    blocks = [block for block in view.get("blocks") or () if block.get("block_id") != NOTE]
    kind = view.get("type", "home")
    fields = ("callback_id", "private_metadata", *(("title", "submit", "close") if kind == "modal" else ()))
    shown = {"type": kind, "blocks": [to_section(sentence) | {"block_id": NOTE}, *blocks][:MOST_BLOCKS]}
    return shown | {name: view[name] for name in fields if view.get(name)}
