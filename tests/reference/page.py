"""Markdown: a page with its notice, and tables."""

from collections.abc import Iterable, Sequence


def build_page(title: str, introduction: str, parts: Iterable[str]) -> str:
    """Return a page that says what it is made from."""
    notice = "<!-- Written by `make reference`; a change here is lost. -->"
    return "\n\n".join([f"# {title}", notice, introduction, *parts]) + "\n"


def build_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a `|` in a cell is no border."""
    lines = [list(columns), ["---"] * len(columns), *([to_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def to_cell(text: str) -> str:
    """Return a text in one line, without what a table would read as a border."""
    return " ".join(text.split()).replace("|", "\\|")
