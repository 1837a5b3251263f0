"""Tool results as sentences of the offline model."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct


class Result(Struct, frozen=True):
    """One finished call: the tool's function, the arguments, and the value it returned."""

    function: str
    arguments: Any
    value: Any

    def argument(self, name: str) -> str:
        """Return an argument as text."""
        return str(self.arguments.get(name, "")) if isinstance(self.arguments, dict) else ""

    def field(self, name: str) -> str:
        """Return a field of the value as text."""
        return str(self.value.get(name, "")) if isinstance(self.value, dict) else ""

    def entries(self) -> list[Any]:
        """Return the value if it is a list, else its first field that is one; empty if there is none."""
        if isinstance(self.value, list):
            return self.value
        if isinstance(self.value, dict):
            return next((inner for inner in self.value.values() if isinstance(inner, list)), [])
        return []

    def first_id(self) -> int | None:
        """Return the id of the first entry; None if there is none."""
        for entry in self.entries()[:1]:
            entry_id = entry.get("id", entry.get("memory_id")) if isinstance(entry, dict) else None
            return entry_id if isinstance(entry_id, int) else None
        return None


def describe_result(result: Result) -> str:
    """Return the result as a sentence; an error with the tool's own message."""
    if isinstance(result.value, dict) and result.value.get("error"):
        return f"That did not work: {result.field('message') or 'the tool gave no reason'}"
    return SENTENCES.get(result.function, _anything)(result)


def _memories(result: Result) -> str:
    contents = [entry.get("content", "") if isinstance(entry, dict) else str(entry) for entry in result.entries()]
    if not contents:
        return "I remember nothing about that." if result.function == "recall" else "I remember nothing yet."
    return "Here is what I remember:\n" + "\n".join(f"- {content}" for content in contents)


def _files(result: Result) -> str:
    files = [entry for entry in result.entries() if isinstance(entry, dict)]
    if not files:
        return "You have no files yet."
    lines = [f"- {file.get('filename')} (file {file.get('file_id')}, {file.get('size_bytes')} bytes)" for file in files]
    return "Your files:\n" + "\n".join(lines)


def _anything(result: Result) -> str:
    if isinstance(result.value, dict):
        plain = [f"{name}: {value}" for name, value in result.value.items() if isinstance(value, (str, int, float))]
        return "; ".join(plain) or "Done."
    return str(result.value) if isinstance(result.value, (str, int, float)) else "Done."


SENTENCES: dict[str, Callable[[Result], str]] = {
    "remember": lambda result: f"I will remember that: {result.argument('content')}",
    "recall": _memories,
    "list_memories": _memories,
    "forget": lambda _result: "I have forgotten it.",
    "list_files": _files,
    "create_document": lambda result: f"I wrote {result.field('filename')} (file {result.field('file_id')}).",
    "read_document": lambda result: f"{result.field('filename')} says:\n\n{result.field('text')}",
    "get_file_link": lambda result: f"{result.field('filename')}: {result.field('url')}",
    "delete_file": lambda result: f"I deleted {result.field('filename')}.",
    "calculate": lambda result: f"{result.argument('expression')} = {result.field('result')}",
    "resolve_date_hint": lambda result: (
        f"{text} {result.field('note')}".strip() if (text := result.field("text")) else _anything(result)
    ),
}
