"""Buttons below answers, as Slack's blocks."""

from collections.abc import Sequence
from datetime import datetime

from adapters.chat.buttons import AGAIN, CHOICE, STOP, VOTES, Button, new_button
from adapters.slack.transport.api import Json

ACTION_ID = "parley"
CHOICES, ACTIONS = "parley_choices", "parley_actions"
OURS = (CHOICES, ACTIONS)
MOST_BUTTONS, LABEL_CHARS = 25, 75
# The words that answer a question for confirmation.
STYLES = {"yes": "primary", "no": "danger"}


def stop_blocks(turn_id: int, asker: str, now: datetime) -> list[Json]:
    """Return what stands below an answer that grows."""
    return [_row(ACTIONS, [_shown(new_button(STOP, turn_id, asker, now), "Stop", "danger")])]


def answer_blocks(
    turn_id: int,
    asker: str,
    now: datetime,
    choices: Sequence[str] = (),
    *,
    status: str = "answered",
    was_edited: bool = False,
) -> list[Json]:
    """Return what stands below an answer: what can be chosen, or what can be done about it."""
    offered = [
        _shown(new_button(CHOICE, turn_id, asker, now, index), _label(choice), STYLES.get(choice))
        for index, choice in enumerate(choices[:MOST_BUTTONS])
    ]
    rows = [_row(CHOICES, offered)] if offered else []
    again = new_button(AGAIN, turn_id, asker, now)
    if was_edited:
        return [*rows, _row(ACTIONS, [_shown(again, "Answer the edited message", "primary")])]
    if rows or status == "refused":
        # A question is answered, not judged; and what was refused once would be refused again.
        return rows
    votes = [_shown(new_button(action, turn_id, asker, now), emoji) for action, emoji in VOTES]
    return [_row(ACTIONS, [_shown(again, "🔄"), *(votes if status == "answered" else ())])]


def without_buttons(blocks: Sequence[Json], chosen: str | None = None) -> list[Json]:
    """Return a message's blocks with no buttons of ours, and with what was chosen."""
    kept = [each for each in blocks if each.get("block_id") not in OURS]
    if chosen is None:
        return kept
    note = {"type": "plain_text", "text": f"✓ {_label(chosen)}", "emoji": False}
    return [*kept, {"type": "context", "block_id": "parley_chosen", "elements": [note]}]


def _row(block_id: str, buttons: Sequence[Json]) -> Json:
    return {"type": "actions", "block_id": block_id, "elements": list(buttons)}


def _shown(button: Button, text: str, style: str | None = None) -> Json:
    shown: Json = {
        "type": "button",
        "action_id": f"{ACTION_ID}:{button.action}:{button.index}",
        "text": {"type": "plain_text", "text": text, "emoji": True},
        "value": button.to_id(),
    }
    return shown | ({"style": style} if style else {})


def _label(choice: str) -> str:
    shown = choice.capitalize() if choice in STYLES else " ".join(choice.split()) or "…"
    return shown if len(shown) <= LABEL_CHARS else f"{shown[: LABEL_CHARS - 1]}…"
