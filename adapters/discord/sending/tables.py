"""Markdown tables, which Discord does not render, as aligned code blocks."""

import re

from shared.text import fence_after

RULE = re.compile(r":?-+:?")
# A table whose aligned rows would have more characters is shown as it was written.
MOST_TABLE_CHARS = 20_000


def tables_to_blocks(text: str) -> str:
    """Return the text with its tables as code blocks."""
    lines, out, index, fence = text.split("\n"), [], 0, ""
    while index < len(lines):
        line = lines[index]
        fence = fence_after(fence, line)
        # The line between a table's head and its rows.
        rule = lines[index + 1] if index + 1 < len(lines) else ""
        cells = rule.strip().removeprefix("|").removesuffix("|").split("|")
        if fence or not ("|" in line and "|" in rule and all(RULE.fullmatch(cell.strip()) for cell in cells)):
            out.append(line)
            index += 1
            continue
        end = index + 2
        while end < len(lines) and "|" in lines[end] and not fence_after("", lines[end]):
            end += 1
        out += _block([lines[index], *lines[index + 2 : end]])
        index = end
    return "\n".join(out)


def _block(rows: list[str]) -> list[str]:
    cells = [
        [
            cell.strip().replace("**", "").replace("`", "")
            for cell in re.split(r"(?<!\\)\|", row.strip().removeprefix("|").removesuffix("|"))
        ]
        for row in rows
    ]
    widths: list[int] = []
    for row in cells:
        widths += [0] * (len(row) - len(widths))
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], len(cell))
    if (sum(widths) + 2 * len(widths)) * len(cells) > MOST_TABLE_CHARS:
        return ["```", *(row.replace("`", "") for row in rows), "```"]
    cells = [row + [""] * (len(widths) - len(row)) for row in cells]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return ["```", lines[0], "  ".join("-" * width for width in widths), *lines[1:], "```"]
