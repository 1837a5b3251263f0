"""The files that tools have made, as their results name them: `file_id` and `url`, or entries of `files` with both."""

from collections.abc import Iterator, Sequence
from typing import Any

from agent.journal.steps import Step

MAX_FILES = 10
SHOWN = ("file_id", "filename", "url")


def list_file_ids(steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the ids of the files that the results among these steps name, each once, at most ten."""
    return tuple(dict.fromkeys(each["file_id"] for each in _find(steps)))[:MAX_FILES]


def list_files(steps: Sequence[Step]) -> tuple[dict[str, Any], ...]:
    """Return the same files in the shape that makes them files of whoever reads a result with them."""
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
    # A tool may give anything; a row's id is a positive bigint.
    return type(value) is int and 0 < value < 2**63
