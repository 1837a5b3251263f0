"""What differs between versions of a persona, in words and line by line; a version's fields are its columns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from hashlib import sha256
from typing import Any

# Of the instructions; for longer ones the comparison would take seconds.
MOST_LINES = 2000


def describe_change(version: Any, earlier: Any | None) -> str:
    """Return what a version has changed of the one before, None for the first; both are rows of the view."""
    if version.action == "delete":
        return "deleted"
    if earlier is None or earlier.action == "delete":
        return "made"
    names = [field for field, value in version.fields.items() if earlier.fields.get(field) != value]
    return f"changed: {', '.join(names)}" if names else "the same"


def list_differences(one: Any, other: Any) -> Sequence[str]:
    """Return the lines of a unified diff between two versions, none if they are the same.

    Of instructions with more than `MOST_LINES` lines the first ones are compared.
    """
    return list(
        unified_diff(
            list(_to_lines(one.fields)),
            list(_to_lines(other.fields)),
            f"version {one.version}",
            f"version {other.version}",
            lineterm="",
        )
    )


def _to_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    # One line for each field, but for the prompt, which people compare line by line.
    for name, value in fields.items():
        if name != "system_prompt" and value is not None:
            yield f"{name}: {json.dumps(value, ensure_ascii=False)}"
    lines = str(fields.get("system_prompt", "")).splitlines()
    yield from lines[:MOST_LINES]
    if len(lines) > MOST_LINES:
        digest = sha256("\n".join(lines[MOST_LINES:]).encode()).hexdigest()[:16]
        yield f"({len(lines) - MOST_LINES:,} more lines, of the digest {digest})"
