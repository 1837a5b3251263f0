"""What a platform shows of a message besides its text: cards of other apps, previews of links, polls.

Each platform reads its own form of them into `Card`s, and one renderer writes them for the prompt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.text import clean, cut

CARDS_CHARS = 1500
MOST_CARDS, MOST_LINES = 10, 50


@dataclass(frozen=True, slots=True)
class Card:
    """Something that is shown as one: its lines as people see them, the title first."""

    lines: Sequence[str]


def to_poll(question: str, answers: Iterable[str]) -> Card:
    """Return a poll."""
    return Card([f"[poll] {question}", *(f"- {answer}" for answer in answers)])


def render_cards(cards: Sequence[Card], text: str = "") -> str:
    """Return the cards as text of at most CARDS_CHARS characters, without the lines that the message's `text` has."""
    lines: list[str] = []
    for card in cards[:MOST_CARDS]:
        stripped = [clean(line).strip() for line in card.lines[:MOST_LINES]]
        lines += [line for line in stripped if line and line not in text and line not in lines]
    return cut("\n".join(lines), CARDS_CHARS)
