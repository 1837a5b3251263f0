"""Buttons below answers as Slack blocks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from adapters.chat.buttons import AGAIN, CHOICE, AnswerButtons, ShownButton, TurnButtons, to_label
from adapters.slack.transport.api import Json, Web
from shared.text import abbreviate

if TYPE_CHECKING:
    from agent.queue.outbox import Reply
    from shared.db.database import Database

ACTION_ID = "parley"
CHOICES, ACTIONS = "parley_choices", "parley_actions"
OURS = (CHOICES, ACTIONS)
MOST_BUTTONS, LABEL_CHARS = 25, 75
STYLES = {"main": "primary", "yes": "primary", "no": "danger"}

CLICKED = text("""
SELECT platform_event_id, content FROM inbox
WHERE platform = :platform AND platform_event_id IN (:choice, :again) ORDER BY id LIMIT 1
""")


def to_rows(shown: AnswerButtons) -> list[Json]:
    """Return the blocks with the buttons of an answer."""
    rows = ((CHOICES, shown.choices[:MOST_BUTTONS]), (ACTIONS, shown.actions))
    return [
        {"type": "actions", "block_id": block_id, "elements": [_element(each) for each in buttons]}
        for block_id, buttons in rows
        if buttons
    ]


def stop_rows(made: TurnButtons) -> list[Json]:
    """Return the blocks with the stop button of live text."""
    return to_rows(AnswerButtons((), [made.stop()]))


def without_buttons(blocks: Sequence[Json]) -> list[Json]:
    """Return a message's blocks without our buttons."""
    return [each for each in blocks if each.get("block_id") not in OURS]


def chosen_rows(chosen: str) -> list[Json]:
    """Return the blocks that replace the buttons after a choice."""
    note = {"type": "plain_text", "text": f"✓ {abbreviate(to_label(chosen), LABEL_CHARS)}", "emoji": False}
    return [{"type": "context", "block_id": "parley_chosen", "elements": [note]}]


def to_click_id(action: str, turn_id: int) -> str:
    """Return the event id of a click; the second click on any button of the row has the same one."""
    return f"{action}:{turn_id:x}"


async def find_clicked_rows(database: "Database", reply: "Reply") -> list[Json] | None:
    """Return the blocks that a click has left of an answer's buttons; None if none was clicked."""
    choice, again = (to_click_id(action, reply.turn_id) for action in (CHOICE, AGAIN))
    given = {"platform": reply.place.platform, "choice": choice, "again": again}
    async with database.statement() as session:
        row = (await session.execute(CLICKED, given)).one_or_none()
    if row is None:
        return None
    return chosen_rows(row.content) if row.platform_event_id == choice else []


async def replace_buttons(web: Web, answer: Any, shown: AnswerButtons) -> None:
    """Replace the buttons of a posted answer; `answer` is its outbox row."""
    where = {"channel": answer.platform_channel_id, "ts": answer.platform_message_id}
    posted = await _find_message(web, where["channel"], answer.platform_thread_id, ts=where["ts"])
    if posted is not None:
        blocks = [*without_buttons(posted.get("blocks", ())), *to_rows(shown)]
        await web.find("chat.update", text=posted["text"], blocks=blocks, **where)


async def _find_message(web: Web, channel: str, thread: str | None, ts: str) -> Json | None:
    at: Json = {"channel": channel, "latest": ts, "oldest": ts, "inclusive": True, "limit": 2}
    if thread is not None:
        found = await web.find("conversations.replies", ts=thread, **at)
    else:
        found = await web.find("conversations.history", **at)
    return next((each for each in (found or {}).get("messages", ()) if each.get("ts") == ts), None)


def _element(shown: ShownButton) -> Json:
    drawn: Json = {
        "type": "button",
        "action_id": f"{ACTION_ID}:{shown.button.action}:{shown.button.index}",
        "text": {"type": "plain_text", "text": abbreviate(shown.label, LABEL_CHARS), "emoji": True},
        "value": shown.button.to_id(),
    }
    style = STYLES.get(shown.kind)
    return drawn | ({"style": style} if style else {})
