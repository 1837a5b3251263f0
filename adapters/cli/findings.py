"""What `parley doctor` finds."""

from dataclasses import dataclass
from typing import Literal

# `off` is something that could be used and is not set up: nothing is wrong.
Level = Literal["ok", "off", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: what is in order, or what is wrong and what to do."""

    level: Level
    subject: str
    text: str
