"""What was entered into a form, on a page or in a chat. A `Refusal` may name the `field` that it is about."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from shared.errors import Refusal
from shared.text import clean

AMOUNT = re.compile(r"[0-9]{1,10}(\.[0-9]{1,8})?")


@dataclass(frozen=True, slots=True)
class Form:
    """What was entered into a form, and the files that came with it."""

    values: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def text(self, name: str) -> str:
        """Return a field without the blanks around it; empty if it was left out."""
        return clean(self.values.get(name, "")).strip()

    def optional(self, name: str) -> str | None:
        """Return a field, None if it is empty."""
        return self.text(name) or None

    def number(self, name: str) -> int | None:
        """Return a whole number as people write it (50,000), None if the field is empty; raises `Refusal`."""
        text = self.text(name).replace(",", "").replace("_", "").replace(" ", "")
        if not text:
            return None
        if not (text.isascii() and text.isdecimal()) or len(text) > 15:
            raise Refusal(f"{self.text(name)[:40]!r} is no whole number; write one such as 50,000.", field=name)
        return int(text)

    def amount(self, name: str) -> Decimal | None:
        """Return an amount of money, None if the field is empty; raises `Refusal`."""
        text = self.text(name).replace(",", "").removeprefix("$").strip()
        if not text:
            return None
        if not AMOUNT.fullmatch(text):
            raise Refusal(f"{self.text(name)[:40]!r} is no amount; write one such as 2.50.", field=name)
        return Decimal(text)
