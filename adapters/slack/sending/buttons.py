"""Buttons below answers as Slack blocks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adapters.chat.buttons import AGAIN, CHOICE, AnswerButtons, TurnButtons, to_label
from adapters.slack.transport.api import Json, Web
from shared.db.statements import load_statements
from shared.text import abbreviate

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.queue.outbox import Reply
    from shared.db.database import Database

ACTION_ID = "parley"
CHOICES, ACTIONS = "parley_choices", "parley_actions"
OURS = (CHOICES, ACTIONS)
MOST_BUTTONS, LABEL_CHARS = 25, 75
STYLES = {"main": "primary", "yes": "primary", "no": "danger"}


def to_rows(answer_buttons: AnswerButtons) -> list[Json]:
    """Return the blocks with the buttons of an answer."""
    rows: list[Json] = []
    for block_id, buttons in ((CHOICES, answer_buttons.choices[:MOST_BUTTONS]), (ACTIONS, answer_buttons.actions)):
        elements = [
            {
                "type": "button",
                "action_id": f"{ACTION_ID}:{button.button.action}:{button.button.index}",
                "text": {"type": "plain_text", "text": abbreviate(button.label, LABEL_CHARS), "emoji": True},
                "value": button.button.to_id(),
                **({"style": style} if (style := STYLES.get(button.kind)) else {}),
            }
            for button in buttons
        ]
        if elements:
            rows.append({"type": "actions", "block_id": block_id, "elements": elements})
    return rows


def stop_rows(turn_buttons: TurnButtons) -> list[Json]:
    """Return the blocks with the stop button of live text."""
    return to_rows(AnswerButtons((), [turn_buttons.stop()]))


def without_buttons(blocks: Sequence[Json]) -> list[Json]:
    """Return a message's blocks without our buttons."""
    return [block for block in blocks if block.get("block_id") not in OURS]


def chosen_rows(choice: str) -> list[Json]:
    """Return the blocks that replace the buttons after a choice."""
    note = {"type": "plain_text", "text": f"✓ {abbreviate(to_label(choice), LABEL_CHARS)}", "emoji": False}
    return [{"type": "context", "block_id": "parley_chosen", "elements": [note]}]


def to_click_id(action: str, turn_id: int) -> str:
    """Return the event id of a click; the second click on any button of the row has the same one."""
    return f"{action}:{turn_id:x}"


async def find_clicked_rows(database: "Database", reply: "Reply") -> list[Json] | None:
    """Return the blocks that a click has left of an answer's buttons; None if none was clicked."""
    choice, again = (to_click_id(action, reply.turn_id) for action in (CHOICE, AGAIN))
    parameters = {"platform": reply.place.platform, "choice": choice, "again": again}
    async with database.statement() as session:
        row = (await session.execute(statements.list_clicks, parameters)).one_or_none()
    if row is None:
        return None
    return chosen_rows(row.content) if row.platform_event_id == choice else []


async def replace_buttons(web: Web, answer: Any, answer_buttons: AnswerButtons) -> None:
    """Replace the buttons of a posted answer; `answer` is its outbox row."""
    where = {"channel": answer.platform_channel_id, "ts": answer.platform_message_id}
    channel, thread, ts = where["channel"], answer.platform_thread_id, where["ts"]
    at: Json = {"channel": channel, "latest": ts, "oldest": ts, "inclusive": True, "limit": 2}
    if thread is not None:
        page = await web.find("conversations.replies", ts=thread, **at)
    else:
        page = await web.find("conversations.history", **at)
    answer_message = next((message for message in (page or {}).get("messages", ()) if message.get("ts") == ts), None)
    if answer_message is not None:
        blocks = [*without_buttons(answer_message.get("blocks", ())), *to_rows(answer_buttons)]
        await web.find("chat.update", text=answer_message["text"], blocks=blocks, **where)
