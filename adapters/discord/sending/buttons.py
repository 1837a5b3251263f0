"""Buttons below answers as Discord components."""

from collections.abc import Sequence

from adapters.chat.buttons import CHOICE, AnswerButtons, Button, ShownButton, cut_label, to_label
from adapters.discord.transport.rest import Json

MOST_BUTTONS, IN_A_ROW, LABEL_CHARS = 20, 5, 40
BLUE, GREY, GREEN, RED = 1, 2, 3, 4
COLOURS = {"choice": BLUE, "main": BLUE, "plain": GREY, "yes": GREEN, "no": RED}


def to_rows(shown: AnswerButtons) -> list[Json]:
    """Return the component rows of an answer."""
    return [
        *_rows([_component(each) for each in shown.choices]),
        *_rows([_component(each) for each in shown.actions]),
    ]


def chosen_rows(choices: Sequence[str], index: int) -> list[Json]:
    """Return the rows after a choice, all disabled."""
    buttons = [
        ShownButton(Button(CHOICE, 0, "", expires=0, index=number), to_label(each))
        for number, each in enumerate(choices)
    ]
    styles = [GREEN if number == index else GREY for number in range(len(choices))]
    drawn = [_component(each) | {"style": style, "disabled": True} for each, style in zip(buttons, styles, strict=True)]
    return _rows(drawn)


def _rows(drawn: Sequence[Json]) -> list[Json]:
    starts = range(0, len(drawn[:MOST_BUTTONS]), IN_A_ROW)
    return [{"type": 1, "components": list(drawn[:MOST_BUTTONS][start : start + IN_A_ROW])} for start in starts]


def _component(shown: ShownButton) -> Json:
    label = (
        {"emoji": {"id": None, "name": shown.label}}
        if shown.is_emoji
        else {"label": cut_label(shown.label, LABEL_CHARS)}
    )
    return {"type": 2, "style": COLOURS[shown.kind], "custom_id": shown.button.to_id(), **label}
