"""Parses the documentation: code blocks with their headings, links, tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.source_tree import ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; `heading` is the nearest heading above it."""

    language: str
    text: str
    heading: str


@dataclass(frozen=True, slots=True)
class Document:
    """One Markdown file."""

    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @property
    def name(self) -> str:
        """Return the path from the project's root."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def prose(self) -> str:
        """Return the text without its fenced blocks."""
        return FENCE.sub("", self.text)

    def headings(self) -> list[str]:
        return [match[2] for match in HEADING.finditer(self.prose)]

    def blocks(self, language: str) -> list[Block]:
        return [block for block in self._all_blocks() if block.language == language]

    def links(self) -> list[str]:
        return LINK.findall(self.prose)

    def rows(self, heading: str) -> list[list[str]]:
        """Return the cells of a table's rows under a heading, without the header."""
        _, _, below = self.text.partition(f"## {heading}\n")
        section = re.split(r"^## ", below, maxsplit=1, flags=re.MULTILINE)[0]
        lines = [line for line in section.splitlines() if line.startswith("|")]
        return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]

    def _all_blocks(self) -> Iterator[Block]:
        text = self.text
        for match in FENCE.finditer(text):
            above = HEADING.findall(FENCE.sub("", text[: match.start()]))
            yield Block(match[1], match[2], above[-1][1] if above else "")


def document(name: str) -> Document:
    """Return one document by its path from the project's root."""
    return Document(ROOT / name)


def documents() -> list[Document]:
    """Return the pages beside the README and everything in `docs/`."""
    return [Document(path) for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))]
