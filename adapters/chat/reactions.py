"""Buttons as reactions, on platforms without buttons: an emoji is pressed, and the text says what it means."""

import json
from typing import TYPE_CHECKING

from adapters.chat.buttons import AGAIN, AGAIN_EMOJI, STOP_LABEL, AnswerButtons, Button, ShownButton, find_button
from shared.db.statements import load_statements

statements = load_statements(__file__)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shared.db.database import Database
    from shared.messages import Place

STOP_EMOJI, STOP_HINT = "🛑", "🛑 stops it"
EMOJI = {"yes": "✅", "no": "❌", STOP_LABEL: STOP_EMOJI}
DIGITS = ("1️⃣", "2️⃣", "3️⃣", "4️⃣", "5️⃣", "6️⃣", "7️⃣", "8️⃣", "9️⃣", "🔟")
# Some clients put it behind an emoji, and others don't.
VARIANT = "\N{VARIATION SELECTOR-16}"


def to_emoji(buttons: AnswerButtons) -> dict[str, ShownButton]:
    """Return the buttons by the emoji that presses them; there is none for an eleventh choice."""
    digits, by_emoji = iter(DIGITS), dict[str, ShownButton]()
    for choice in (*buttons.choices, *buttons.actions):
        emoji = choice.label if choice.is_emoji else EMOJI.get(choice.label) or EMOJI.get(choice.kind)
        emoji = AGAIN_EMOJI if choice.button.action == AGAIN else emoji or next(digits, None)
        if emoji:
            by_emoji[emoji] = choice
    return by_emoji


def list_words(buttons: "Mapping[str, ShownButton]") -> list[str]:
    """Return the lines below an answer that say what the emoji of its choices mean."""
    return [f"{emoji} {choice.label}" for emoji, choice in buttons.items() if choice.kind not in ("plain", "main")]


def without_list(text: str, buttons: "Mapping[str, ShownButton]") -> str:
    """Return a text without the numbered list of choices at its end, in whose place their emoji stand."""
    labels = [choice.label for emoji, choice in buttons.items() if emoji in DIGITS]
    return text.removesuffix("\n".join(f"{number}. {label}" for number, label in enumerate(labels, start=1))).rstrip()


class Reactions:
    """What reactions to the messages of one platform mean."""

    def __init__(self, database: "Database", platform: str) -> None:
        self._database, self._platform = database, platform

    async def store(self, place: "Place", message: str, buttons: "Mapping[str, ShownButton]") -> None:
        """Keep the buttons of a message, in the place of those that it had."""
        ids = {emoji.replace(VARIANT, ""): choice.button.to_id() for emoji, choice in buttons.items()}
        row = {"channel": place.channel, "message": message, "thread": place.thread, "buttons": json.dumps(ids)}
        async with self._database.statement() as session:
            await session.execute(statements.store_buttons, {"platform": self._platform} | row)

    async def find(self, channel: str, message: str, emoji: str) -> tuple[Button, str | None] | None:
        """Return the button that an emoji presses below a message, with its thread; None if there is none."""
        values = {"platform": self._platform, "channel": channel, "message": message}
        async with self._database.statement() as session:
            values |= {"emoji": emoji.replace(VARIANT, "")}
            row = (await session.execute(statements.find_button, values)).one_or_none()
        button = find_button(row.button) if row is not None and row.button else None
        return None if button is None or row is None else (button, row.thread)

    async def delete(self, channel: str, message: str) -> None:
        """Drop the buttons of a message: later reactions are none of ours."""
        row = {"platform": self._platform, "channel": channel, "message": message}
        async with self._database.statement() as session:
            await session.execute(statements.delete_buttons, row)
