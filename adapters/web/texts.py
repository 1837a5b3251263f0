"""What the pages say: one catalogue for their HTML, scripts, templates and answers.

Another language is another file with the same keys. Those without a dot are the chat page's own, which its scripts get;
the others are said by the server. What is said on every platform alike is not here, though pages show it: replies to
commands, refusals of the database, the facts of a turn. A person would otherwise be answered by one program in two
languages; a catalogue of theirs would be the agent's.
"""

import json
import re
from datetime import date
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

TEXTS = Path(__file__).parent / "static" / "texts.en.json"
PLACE = re.compile(r"{(\w+)}")


@cache
def read_texts() -> dict[str, str]:
    """Return all texts by their keys."""
    texts: dict[str, str] = json.loads(TEXTS.read_text("utf-8"))
    return texts


def say(key: str, **values: object) -> str:
    """Return a text with its values, as `fill` in `texts.js`."""
    return PLACE.sub(lambda place: str(values[place[1]]), read_texts()[key])


def to_day(day: date) -> str:
    """Return a day, with its month as the catalogue names it."""
    return say("date.day", day=day.day, month=say("date.months").split()[day.month - 1], year=day.year)


def say_in_html(key: str, **values: object) -> Markup:
    """Return a text for a template, with values that may be HTML of ours: a moment is."""
    return Markup(PLACE.sub(lambda place: escape(values[place[1]]), escape(read_texts()[key])))  # noqa: S704  # escaped
