"""An answer in Discord's form: no tables, no accidental mentions, parts of at most 2,000 characters; buttons."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from adapters.chat.buttons import CHOICE, AnswerButtons, Button, ShownButton, cut_label, to_label
from adapters.chat.parts import Upload, split_text
from adapters.discord.transport.rest import Json
from shared.text import fence_after

MESSAGE_LIMIT = 2000
MOST_PARTS = 6
PREVIEW_CHARS = 1500
AS_FILE = "The whole answer is in the file."
RULE = re.compile(r":?-+:?")
FENCED_LINES = re.compile(r"^ {0,3}(?:`{3}|~{3}).*$", re.MULTILINE)
# A table whose aligned rows would have more characters is shown as it was written.
MOST_TABLE_CHARS = 20_000
MOST_BUTTONS, IN_A_ROW, LABEL_CHARS = 20, 5, 40
BLUE, GREY, GREEN, RED = 1, 2, 3, 4
COLOURS = {"choice": BLUE, "main": BLUE, "plain": GREY, "yes": GREEN, "no": RED}


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
        while end < len(lines) and "|" in lines[end] and not fence_after("", lines[end]):
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


def to_rows(shown: AnswerButtons) -> list[Json]:
    """Return the component rows of an answer."""
    return [
        *_rows([_component(each) for each in shown.choices]),
        *_rows([_component(each) for each in shown.actions]),
    ]


def chosen_rows(choices: Sequence[str], index: int) -> list[Json]:
    """Return the rows after a choice, all disabled."""
    buttons = [
        ShownButton(Button(CHOICE, 0, "", expires=0, index=number), to_label(each))
        for number, each in enumerate(choices)
    ]
    styles = [GREEN if number == index else GREY for number in range(len(choices))]
    drawn = [_component(each) | {"style": style, "disabled": True} for each, style in zip(buttons, styles, strict=True)]
    return _rows(drawn)


def _rows(drawn: Sequence[Json]) -> list[Json]:
    starts = range(0, len(drawn[:MOST_BUTTONS]), IN_A_ROW)
    return [{"type": 1, "components": list(drawn[:MOST_BUTTONS][start : start + IN_A_ROW])} for start in starts]


def _component(shown: ShownButton) -> Json:
    label = (
        {"emoji": {"id": None, "name": shown.label}}
        if shown.is_emoji
        else {"label": cut_label(shown.label, LABEL_CHARS)}
    )
    return {"type": 2, "style": COLOURS[shown.kind], "custom_id": shown.button.to_id(), **label}
