"""The possible outcomes of a tool call, each with the JSON text that the model is shown, and the JSON of results.

That is of bounded size: of a very large result only a part is read, so that converting it does not cost more than for
a small one. Results name the files that their tools have made: `file_id` and `url`, or a list `files` of entries with
both.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Literal, assert_never

from msgspec import Struct, field
from msgspec.structs import asdict
from pydantic_core import to_jsonable_python

from agent.journal.steps import OutcomeKind, Step
from agent.prompts import prompts
from shared.errors import ToolError
from shared.messages import Usage
from shared.text import clean

# At most this many characters of a result are converted to JSON, or four times the limit if that is more.
MOST_CHARS = 200_000
MOST_LEVELS = 64
# Characters counted for every value besides its text: commas, quotes and brackets.
WRAPPING = 4
MAX_FILES = 10
FILE_KEYS = ("file_id", "filename", "url")
Reason = Literal["tool", "taint"]


class ModelWork(Struct, frozen=True):
    """The work of models for a tool call: the number of model calls, their usage and the complete text they wrote."""

    model_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    text: str = ""


NO_WORK = ModelWork()


class ApprovalRequest(Struct, frozen=True):
    """A request for approval of one call with these arguments (JSON text); `text` is the question to the user.

    A request for several calls, which are approved or denied together, has the names of their tools, separated by
    commas, and as `arguments` a JSON list of the calls; `agent/turn/confirmations/questions.py` writes and reads it.
    `agent` is the agent that made the call, None for the persona that answers. `approver` is the permission that
    the approving user needs; None when the asked user may approve.
    """

    call_id: str
    tool: str
    arguments: str
    text: str
    reason: Reason
    agent: str | None = None
    approver: str | None = None

    @property
    def shown(self) -> str:
        """Return the question, followed by its reason and instructions how to answer it."""
        texts = prompts().confirmation
        hint = texts.hint if self.approver is None else texts.hint_approver.format(level=self.approver)
        return "\n\n".join([self.text, *([texts.taint_reason] if self.reason == "taint" else []), hint])

    def to_journal(self) -> dict[str, Any]:
        """Convert the request to the form the journal stores."""
        return asdict(self)


class Returned(Struct, frozen=True):
    """The return value of a provider's call: a value, an error or a request for approval, and the work of models."""

    value: Any = None
    error: ToolError | None = None
    asked: ApprovalRequest | None = None
    work: ModelWork = NO_WORK


class Result(Struct, frozen=True):
    """The call succeeded. `full` is the result before it was cut for the model; None when it was not cut."""

    content: str
    work: ModelWork = NO_WORK
    full: str | None = None


class Failed(Struct, frozen=True):
    """The call failed, or is not permitted."""

    content: str
    work: ModelWork = NO_WORK


class NotRun(Struct, frozen=True):
    """The call was skipped for a reason other than its tool or its arguments."""

    content: str
    work: ModelWork = NO_WORK


class NeedsApproval(Struct, frozen=True):
    """The call was not run, because it needs approval; the turn ends with the question."""

    content: str
    request: ApprovalRequest
    work: ModelWork = NO_WORK


Outcome = Result | Failed | NotRun | NeedsApproval


def kind_of(outcome: Outcome) -> OutcomeKind:
    """Return the outcome's kind as the journal stores it."""
    match outcome:
        case Result():
            return "result"
        case Failed():
            return "failed"
        case NotRun():
            return "not_run"
        case NeedsApproval():
            return "needs_approval"
        case _:
            assert_never(outcome)


def is_error(outcome: Outcome) -> bool:
    """Return whether the events of the turn show the call as failed."""
    return isinstance(outcome, Failed | NotRun)


def unknown_outcome() -> Failed:
    """Return the outcome of an interrupted call whose effect may have happened; the call is not repeated."""
    return Failed(json.dumps({"error": True, "message": prompts().turn.unknown_outcome}))


def not_run(reason: str) -> NotRun:
    """Return the outcome of a call that was skipped, with the reason for the model."""
    return NotRun(json.dumps({"error": True, "not_run": True, "message": reason}, ensure_ascii=False))


def failed(message: str) -> Failed:
    """Return the outcome of a failed call, with the error message for the model."""
    return Failed(json.dumps({"error": True, "message": message}, ensure_ascii=False))


def to_json(result: Any, limit: int) -> str:
    """Convert a result to JSON of at most `limit` characters.

    A longer result becomes an object with `cut`, its size in characters and its beginning.
    """
    return to_shown_and_kept(result, limit)[0]


def to_shown_and_kept(result: Any, limit: int, capacity: int = 0) -> tuple[str, str | None]:
    """Convert a result to the JSON that the model is shown, as `to_json` does, and to what is kept of a longer one.

    That has at most `capacity` characters, cut in the same way. None when the model is shown all of the result, or when
    no more than that may be kept.
    """
    copier = _Copier(max(MOST_CHARS, 4 * limit, capacity))
    plain = copier.copy(result)
    text = json.dumps(plain, ensure_ascii=False)
    if len(text) <= limit and not copier.is_cut:
        return text, None
    size = {"more_than_chars" if copier.is_cut else "total_chars": len(text)}
    whole = text if len(text) <= capacity and not copier.is_cut else _cut(text, size, capacity)
    return _cut(text, size, limit), whole if capacity > limit else None


def _cut(text: str, size: Mapping[str, int], limit: int) -> str:
    length_limit = max(0, limit - 120)
    beginning = text[:length_limit]
    # Escaping the cut text again may make it longer than the limit.
    while (length := len(json.dumps(beginning, ensure_ascii=False))) > length_limit + 2:
        beginning = beginning[: len(beginning) * length_limit // length]
    return json.dumps({"cut": True, **size, "beginning": beginning}, ensure_ascii=False)


class _Copier:
    # Copies JSON values as they are and converts others with pydantic, until the character limit is reached.
    def __init__(self, chars: int) -> None:
        self._left = chars
        self._level = 0
        self.is_cut = False

    def copy(self, value: Any) -> Any:
        self._left -= WRAPPING
        if value is None or isinstance(value, (bool, int)):
            return value
        if type(value) is str:
            return self._copy_text(value)
        if isinstance(value, (bytes, bytearray)):
            # One byte more than fits, so that `_copy_text` notices the cut.
            return self._copy_text(bytes(value[: max(0, self._left) + 1]).decode("utf-8", "replace"))
        if type(value) is float:
            return value if isfinite(value) else str(value)
        if isinstance(value, (Mapping, list, tuple, set, frozenset, Iterator)):
            if self._level >= MOST_LEVELS:
                self.is_cut = True
                return "…"
            self._level += 1
            copied = self._copy_pairs(value) if isinstance(value, Mapping) else self._copy_each(value)
            self._level -= 1
            return copied
        return self.copy(to_jsonable_python(value, fallback=str, inf_nan_mode="strings"))

    def _copy_pairs(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, inner in value.items():
            if self._is_full():
                break
            name = key if type(key) is str else str(to_jsonable_python(key, fallback=str))
            copied[self._copy_text(name)] = self.copy(inner)
        return copied

    def _copy_each(self, value: Any) -> list[Any]:
        copied: list[Any] = []
        for inner in value:
            if self._is_full():
                break
            copied.append(self.copy(inner))
        return copied

    def _copy_text(self, text: str) -> str:
        remainder = max(0, self._left)
        self._left -= len(text)
        self.is_cut = self.is_cut or len(text) > remainder
        return clean(text[:remainder])

    def _is_full(self) -> bool:
        self.is_cut = self.is_cut or self._left <= 0
        return self._left <= 0


def list_file_ids(steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the ids of the files that the tool results name, without duplicates, at most `MAX_FILES`."""
    return tuple(dict.fromkeys(file["file_id"] for file in _find_files(steps)))[:MAX_FILES]


def list_files(steps: Sequence[Step]) -> tuple[dict[str, Any], ...]:
    """Return the same files as entries for the `files` list of a tool result, at most `MAX_FILES`."""
    files = {file["file_id"]: file for file in _find_files(steps)}
    return tuple({key: file[key] for key in FILE_KEYS if key in file} for file in list(files.values())[:MAX_FILES])


def _find_files(steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
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
