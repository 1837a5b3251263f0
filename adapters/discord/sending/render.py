"""An answer in Discord's Markdown: no tables, no accidental mentions, parts of at most 2,000 characters."""

import re
from dataclasses import dataclass

from adapters.chat.splitting import split_text
from adapters.chat.uploads import Upload
from shared.text import fence_after

MESSAGE_LIMIT = 2000
MOST_PARTS = 6
PREVIEW_CHARS = 1500
AS_FILE = "The whole answer is in the file."
RULE = re.compile(r":?-+:?")
FENCED_LINES = re.compile(r"^ {0,3}(?:`{3}|~{3}).*$", re.MULTILINE)
# A table whose aligned rows would have more characters is shown as it was written.
MOST_TABLE_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Rendered:
    """The parts of an answer in order, and the whole as a file if it is too long."""

    parts: tuple[str, ...]
    file: Upload | None = None


def render(text: str, *, may_attach: bool = True, most_parts: int = MOST_PARTS) -> Rendered:
    """Return the parts of an answer; a longer one becomes a file behind its beginning, if files are allowed."""
    shown = tables_to_blocks(text.strip()) or "\N{ZERO WIDTH SPACE}"
    parts = split_text(shown, MESSAGE_LIMIT)
    if len(parts) <= most_parts or not may_attach:
        return Rendered(tuple(parts))
    beginning = split_text(shown, PREVIEW_CHARS)[0]
    return Rendered((f"{beginning}\n\n… {AS_FILE}",), Upload("answer.md", text.encode()))


def live(text: str) -> str:
    """Return the live text: the end of the answer if it is long."""
    parts = split_text(tables_to_blocks(_end_of(text)), MESSAGE_LIMIT - 2)
    return parts[0] if len(parts) == 1 else f"…\n{parts[-1]}"


def _end_of(text: str) -> str:
    """Return enough of the end to fill a message, beginning in the code block in which it is."""
    if len(text) <= 2 * MESSAGE_LIMIT:
        return text
    start = len(text) - 2 * MESSAGE_LIMIT
    start = text.rfind("\n", 0, start) + 1 or start
    fence = ""
    for line in FENCED_LINES.finditer(text, 0, start):
        fence = fence_after(fence, line[0])
    end = text[max(start, len(text) - 4 * MESSAGE_LIMIT) :]
    return f"{fence}\n{end}" if fence else end


def tables_to_blocks(text: str) -> str:
    """Return the text with Markdown tables, which Discord does not render, as aligned code blocks."""
    lines, out, index, fence = text.split("\n"), [], 0, ""
    while index < len(lines):
        line = lines[index]
        fence = fence_after(fence, line)
        if fence or "|" not in line or index + 1 == len(lines) or not _is_rule(lines[index + 1]):
            out.append(line)
            index += 1
            continue
        end = index + 2
        while end < len(lines) and "|" in lines[end]:
            end += 1
        out += _block([lines[index], *lines[index + 2 : end]])
        index = end
    return "\n".join(out)


def _is_rule(line: str) -> bool:
    cells = line.strip().removeprefix("|").removesuffix("|").split("|")
    return "|" in line and all(RULE.fullmatch(cell.strip()) for cell in cells)


def _block(rows: list[str]) -> list[str]:
    cells = [[cell.strip().replace("**", "").replace("`", "") for cell in _cells(row)] for row in rows]
    widths = _widths(cells)
    if (sum(widths) + 2 * len(widths)) * len(cells) > MOST_TABLE_CHARS:
        return ["```", *(row.replace("`", "") for row in rows), "```"]
    cells = [row + [""] * (len(widths) - len(row)) for row in cells]
    drawn = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return ["```", drawn[0], "  ".join("-" * width for width in widths), *drawn[1:], "```"]


def _widths(cells: list[list[str]]) -> list[int]:
    widths: list[int] = []
    for row in cells:
        widths += [0] * (len(row) - len(widths))
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], len(cell))
    return widths


def _cells(row: str) -> list[str]:
    return re.split(r"(?<!\\)\|", row.strip().removeprefix("|").removesuffix("|"))
