"""Shows long texts and tables in parts."""

from typing import Any

# A part ends with a line when one ends in the last part of it.
LAST_PART = 4
MAX_HEADER_CHARS = 500


def to_page(text: str, offset: int, size: int, *, is_table: bool = False) -> dict[str, Any]:
    """Return the part of a text that begins at `offset`, and where to read on; parts of a table repeat its header."""
    start = min(max(offset, 0), len(text))
    end = start + size
    if end < len(text):
        line_end = text.rfind("\n", end - size // LAST_PART, end)
        end = end if line_end < 0 else line_end + 1
    page: dict[str, Any] = {"text": text[start:end]}
    header = text.partition("\n")[0]
    if is_table and 0 < start < len(text) and len(header) <= MAX_HEADER_CHARS:
        page = {"header": header, **page}
    if end < len(text):
        page["note"] = f"{len(text):,} characters in all; read on with offset {end}."
    return page
