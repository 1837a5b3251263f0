"""Finds the files that tools have made: results have `file_id` and `url`, or a list `files` of entries with both."""

from collections.abc import Iterator, Sequence
from typing import Any

from agent.journal.steps import Step

MAX_FILES = 10
SHOWN = ("file_id", "filename", "url")


def list_file_ids(steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the ids of the files that the tool results name, without duplicates, at most `MAX_FILES`."""
    return tuple(dict.fromkeys(each["file_id"] for each in _find(steps)))[:MAX_FILES]


def list_files(steps: Sequence[Step]) -> tuple[dict[str, Any], ...]:
    """Return the same files as entries for the `files` list of a tool result, at most `MAX_FILES`."""
    found = {each["file_id"]: each for each in _find(steps)}
    return tuple({key: each[key] for key in SHOWN if key in each} for each in list(found.values())[:MAX_FILES])


def _find(steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
    for step in steps:
        result = step.value if step.role == "tool_result" else None
        if not isinstance(result, dict):
            continue
        listed = result.get("files")
        for each in (result, *(listed if isinstance(listed, list) else ())):
            if isinstance(each, dict) and _is_id(each.get("file_id")) and isinstance(each.get("url"), str):
                yield each


def _is_id(value: Any) -> bool:
    # Results are not validated; the id of a row is a positive bigint.
    return type(value) is int and 0 < value < 2**63
