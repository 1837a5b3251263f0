"""Finds the files that tools have made: results have `file_id` and `url`, or a list `files` of entries with both."""

from collections.abc import Iterator, Sequence
from typing import Any

from agent.journal.steps import Step

MAX_FILES = 10
SHOWN = ("file_id", "filename", "url")


def list_file_ids(steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the ids of the files that the tool results name, without duplicates, at most `MAX_FILES`."""
    return tuple(dict.fromkeys(file["file_id"] for file in _find(steps)))[:MAX_FILES]


def list_files(steps: Sequence[Step]) -> tuple[dict[str, Any], ...]:
    """Return the same files as entries for the `files` list of a tool result, at most `MAX_FILES`."""
    files = {file["file_id"]: file for file in _find(steps)}
    return tuple({key: file[key] for key in SHOWN if key in file} for file in list(files.values())[:MAX_FILES])


def _find(steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
    for step in steps:
        result = step.value if step.role == "tool_result" else None
        if not isinstance(result, dict):
            continue
        files = result.get("files")
        entries = (result, *(files if isinstance(files, list) else ()))
        for file in (entry for entry in entries if isinstance(entry, dict)):
            # Results are not validated; the id of a row is a positive bigint.
            file_id, url = file.get("file_id"), file.get("url")
            if type(file_id) is int and 0 < file_id < 2**63 and isinstance(url, str):
                yield file
