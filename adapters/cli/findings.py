"""What `parley doctor` finds."""

from dataclasses import dataclass, field
from typing import Literal

from shared.redaction import redact_text

# `off` is something that could be used and is not set up: nothing is wrong.
Level = Literal["ok", "off", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: what is in order, or what is wrong and what to do.

    `is_outage`: the other side can't be reached, so that nothing is known of what was to be checked.
    """

    level: Level
    subject: str
    text: str
    is_outage: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Take secrets out of the text, which may be a library's error."""
        object.__setattr__(self, "text", redact_text(self.text))
