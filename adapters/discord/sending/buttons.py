"""Buttons below answers, as Discord's components."""

from collections.abc import Sequence
from datetime import datetime

from adapters.chat.buttons import AGAIN, CHOICE, STOP, VOTES, Button, new_button
from adapters.discord.transport.rest import Json

MOST_BUTTONS, IN_A_ROW, LABEL_CHARS = 20, 5, 80
BLUE, GREY, GREEN, RED = 1, 2, 3, 4
# The words that answer a question for confirmation.
COLOURS = {"yes": GREEN, "no": RED}


def stop_row(turn_id: int, asker: str, now: datetime) -> list[Json]:
    """Return the row below an answer that grows."""
    return [_row([_shown(new_button(STOP, turn_id, asker, now), RED, "Stop")])]


def answer_rows(
    turn_id: int,
    asker: str,
    now: datetime,
    choices: Sequence[str] = (),
    *,
    status: str = "answered",
    was_edited: bool = False,
) -> list[Json]:
    """Return the rows below an answer: what can be chosen, or what can be done about it."""
    offered = [
        _shown(new_button(CHOICE, turn_id, asker, now, index), COLOURS.get(choice, BLUE), _label(choice))
        for index, choice in enumerate(choices[:MOST_BUTTONS])
    ]
    rows = [_row(offered[start : start + IN_A_ROW]) for start in range(0, len(offered), IN_A_ROW)]
    again = new_button(AGAIN, turn_id, asker, now)
    if was_edited:
        return [*rows, _row([_shown(again, BLUE, "Answer the edited message")])]
    if rows or status == "refused":
        # A question is answered, not judged; and what was refused once would be refused again.
        return rows
    votes = [_shown(new_button(action, turn_id, asker, now), GREY, emoji=emoji) for action, emoji in VOTES]
    return [_row([_shown(again, GREY, emoji="🔄"), *(votes if status == "answered" else ())])]


def chosen_rows(choices: Sequence[str], index: int) -> list[Json]:
    """Return the rows after a choice: all can be seen, none can be pressed."""
    offered = [
        _shown(Button(CHOICE, 0, "", 0, number), GREEN if number == index else GREY, _label(choice))
        | {"disabled": True}
        for number, choice in enumerate(choices[:MOST_BUTTONS])
    ]
    return [_row(offered[start : start + IN_A_ROW]) for start in range(0, len(offered), IN_A_ROW)]


def _shown(button: Button, style: int, label: str = "", emoji: str = "") -> Json:
    shown: Json = {"type": 2, "style": style, "custom_id": button.to_id()}
    return shown | ({"label": label} if label else {"emoji": {"id": None, "name": emoji}})


def _row(buttons: Sequence[Json]) -> Json:
    return {"type": 1, "components": list(buttons)}


def _label(choice: str) -> str:
    shown = choice.capitalize() if choice in COLOURS else " ".join(choice.split()) or "…"
    return shown if len(shown) <= LABEL_CHARS // 2 else f"{shown[: LABEL_CHARS // 2 - 1]}…"
