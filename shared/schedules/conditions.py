"""The condition of a polling job: what a tool's result has to be. Anything that does not fit is not yet true."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import asdict

from shared.errors import ToolError

Comparison = Literal["equals", "differs", "contains", "lacks", "above", "below", "exists", "missing"]
COMPARISONS: tuple[Comparison, ...] = get_args(Comparison)
Value = str | float | bool | None

MAX_PATH_CHARS = 200
MISSING: Any = object()


class Condition(Struct, frozen=True):
    """What is at `path` of a result compares so to `value`. A path is keys and indexes with dots; empty: all of it."""

    path: str
    comparison: Comparison
    value: Value = None

    def holds(self, result: Any) -> bool:
        """Return whether the condition is true of a result, as parsed from JSON."""
        value = find_value(result, self.path)
        match self.comparison:
            case "exists" | "missing":
                return (value is not MISSING) == (self.comparison == "exists")
            case "equals" | "differs":
                numbers = _to_number(value), _to_number(self.value)
                texts = str(value).casefold(), str(self.value).casefold()
                first, second = texts if None in numbers else numbers
                return value is not MISSING and (first == second) == (self.comparison == "equals")
            case "contains" | "lacks":
                return value is not MISSING and _contains(value, self.value) == (self.comparison == "contains")
            case "above" | "below":
                number, limit = _to_number(value), _to_number(self.value)
                if number is None or limit is None:
                    return False
                return number > limit if self.comparison == "above" else number < limit

    def to_row(self) -> dict[str, Any]:
        """Return what is stored."""
        return asdict(self)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Condition":
        """Return the condition of a row, which an admin may have written; raises `ToolError` for a wrong one."""
        path, value = row.get("path", ""), row.get("value")
        comparison: Comparison | None = next(
            (candidate for candidate in COMPARISONS if candidate == row.get("comparison")), None
        )
        if not isinstance(path, str) or comparison is None or isinstance(value, list | dict):
            raise ToolError(f"A condition is a path, a value, and one of {', '.join(COMPARISONS)}.")
        return cls(path, comparison, value)


def check_condition(condition: Condition) -> None:
    """Raise `ToolError` for a condition that can never be true."""
    if len(condition.path) > MAX_PATH_CHARS:
        raise ToolError(f"A path has at most {MAX_PATH_CHARS} characters.")
    if condition.comparison in {"above", "below"} and _to_number(condition.value) is None:
        raise ToolError(f"{condition.comparison} needs a number as value.")
    if condition.comparison in {"contains", "lacks"} and condition.value in (None, ""):
        raise ToolError(f"{condition.comparison} needs a value.")


def find_value(value: Any, path: str) -> Any:
    """Return what is at this path, `MISSING` if there is nothing."""
    for part in path.split(".") if path else ():
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdecimal() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return MISSING
    return value


def _contains(reading: Any, value: Value) -> bool:
    if isinstance(reading, list):
        return any(_contains(part, value) for part in reading)
    if isinstance(reading, dict):
        return any(_contains(part, value) for part in (*reading, *reading.values()))
    return str(value).casefold() in str(reading).casefold()


def _to_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
