"""An answer in Discord's Markdown: no tables, no accidental mentions, parts of at most 2,000 characters."""

import re
from dataclasses import dataclass

from adapters.chat.splitting import fence_after, split_text
from adapters.chat.uploads import Upload

MESSAGE_LIMIT = 2000
MOST_PARTS = 6
PREVIEW_CHARS = 1500
AS_FILE = "The whole answer is in the file."
ROW = re.compile(r"^\s*\|?.*\|.*\|?\s*$")
RULE = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")


@dataclass(frozen=True, slots=True)
class Rendered:
    """The parts of an answer in order, and the whole as a file if it is too long."""

    parts: tuple[str, ...]
    file: Upload | None = None


def render(text: str, *, may_attach: bool = True) -> Rendered:
    """Return the parts of an answer; one of more than six becomes a file behind its beginning, if files are allowed."""
    shown = tables_to_blocks(text.strip()) or "\N{ZERO WIDTH SPACE}"
    parts = split_text(shown, MESSAGE_LIMIT)
    if len(parts) <= MOST_PARTS or not may_attach:
        return Rendered(tuple(parts))
    beginning = split_text(shown, PREVIEW_CHARS)[0]
    return Rendered((f"{beginning}\n\n… {AS_FILE}",), Upload("answer.md", text.encode()))


def live(text: str) -> str:
    """Return the live text: the end of the answer if it is long."""
    parts = split_text(tables_to_blocks(text), MESSAGE_LIMIT - 2)
    return parts[0] if len(parts) == 1 else f"…\n{parts[-1]}"


def tables_to_blocks(text: str) -> str:
    """Return the text with Markdown tables, which Discord does not render, as aligned code blocks."""
    lines, out, index, fence = text.split("\n"), [], 0, ""
    while index < len(lines):
        line = lines[index]
        fence = fence_after(fence, line)
        is_table = not fence and ROW.match(line) and index + 1 < len(lines) and RULE.match(lines[index + 1])
        if not is_table or "|" not in lines[index + 1]:
            out.append(line)
            index += 1
            continue
        end = index + 2
        while end < len(lines) and "|" in lines[end] and ROW.match(lines[end]):
            end += 1
        out += _block([lines[index], *lines[index + 2 : end]])
        index = end
    return "\n".join(out)


def _block(rows: list[str]) -> list[str]:
    cells = [[cell.strip().replace("**", "").replace("`", "") for cell in _cells(row)] for row in rows]
    columns = max(len(row) for row in cells)
    cells = [row + [""] * (columns - len(row)) for row in cells]
    widths = [max(len(row[column]) for row in cells) for column in range(columns)]
    drawn = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return ["```", drawn[0], "  ".join("-" * width for width in widths), *drawn[1:], "```"]


def _cells(row: str) -> list[str]:
    return re.split(r"(?<!\\)\|", row.strip().removeprefix("|").removesuffix("|"))
