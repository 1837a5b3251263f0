"""The rows of a result, and how their values are written in JSON."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from msgspec import Struct

from shared.text import clean

MAX_CELL_CHARS, MAX_COLUMNS = 500, 100
# JSON's readers keep this many digits of a number.
EXACT_DIGITS = 15
# Larger ones are written with an exponent: one may stand for a gigabyte of digits.
MAX_WRITTEN_DIGITS = 400


class Rows(Struct, frozen=True):
    """Rows of a result; `is_cut` says that there are more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool = False

    def to_result(self) -> dict[str, Any]:
        """Return the fields of a tool's result."""
        rows = [list(row) for row in self.rows]
        return {"columns": list(self.columns), "rows": rows, "row_count": len(rows), "truncated": self.is_cut}


def to_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], limit: int) -> Rows:
    """Return at most `limit` of the rows with values for JSON."""
    json_rows = [tuple(to_json_value(cell) for cell in row) for row in rows]
    return Rows(tuple(columns), tuple(json_rows[:limit]), is_cut=len(json_rows) > limit)


def to_json_value(value: Any) -> Any:
    """Return a database's value as JSON: a decimal as a number where no digit is lost, anything unknown as text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return to_number(value)
    text = clean(str(value))
    return text if len(text) <= MAX_CELL_CHARS else f"{text[: MAX_CELL_CHARS - 1]}…"


def to_number(value: Decimal) -> int | float | str:
    """Return a decimal as a number if JSON keeps all its digits, else as text."""
    if not value.is_finite() or abs(value.adjusted()) > MAX_WRITTEN_DIGITS:
        return str(value)
    if len(value.normalize().as_tuple().digits) > EXACT_DIGITS or abs(value.adjusted()) > EXACT_DIGITS:
        return f"{value:f}"
    return int(value) if value == value.to_integral_value() else float(value)
