"""Markdown on a screen while it comes: finished blocks are written for good, the last one anew with each piece."""

from textwrap import fill
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from shared.text import harmless

# Longer lines are hard to read, however wide the window is.
MOST_COLUMNS = 100
# What stands out on a dark screen and on a bright one, which the library's own styles do not.
STYLES = {
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.code": "cyan",
    "markdown.code_block": "cyan",
    "markdown.link": "underline",
    "markdown.link_url": "underline",
    "markdown.item.bullet": "bold",
    "markdown.item.number": "bold",
}
CODE_THEME = "ansi_dark"


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar = dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "left")


class _BareCode(CodeBlock):
    # At the margin and without a background, so that it can be copied.
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True)


class _WholeCells(TableElement):
    # A number of which the end is cut off is another number: it goes on in the next line.
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            for column in table.columns if isinstance(table, Table) else ():
                column.overflow = "fold"
            yield table


class AnswerMarkdown(Markdown):
    """An answer, with the addresses of its links in sight: who wrote them may not be who is answered."""

    elements: ClassVar = Markdown.elements | {
        "heading_open": _LeftHeading,
        "table_open": _WholeCells,
        "fence": _BareCode,
        "code_block": _BareCode,
    }

    def __init__(self, text: str) -> None:
        # Without a justification lines are not filled with blanks.
        super().__init__(text, code_theme=CODE_THEME, justify="default", hyperlinks=False)


class _Block:
    """A block without empty lines around it; with `is_tail` as many of its last lines as the screen shows."""

    def __init__(self, text: str, *, is_tail: bool) -> None:
        self._text, self._is_tail = text, is_tail

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        options = options.update(width=min(options.max_width, MOST_COLUMNS), height=None)
        lines = console.render_lines(AnswerMarkdown(self._text), options, pad=False)
        is_full = ["".join(segment.text for segment in line).strip() != "" for line in lines]
        if any(is_full):
            lines = lines[is_full.index(True) : len(lines) - is_full[::-1].index(True)]
        for line in lines[-max(1, console.height - 2) :] if self._is_tail else lines:
            # Markdown makes characters, too: of &#x202e; one that turns the direction of what follows.
            yield from (Segment(harmless(segment.text), segment.style) for segment in line)
            yield Segment.line()


def open_console() -> Console:
    """Return the console of the terminal; it has no colours where NO_COLOR or the terminal forbids them."""
    return Console(theme=Theme(STYLES), highlight=False)


def find_last_block(text: str) -> int:
    """Return where the last block of a Markdown text begins: what stands before it does not change any more."""
    tokens = MarkdownIt().enable("table").parse(text)
    starts = [token.map[0] for token in tokens if token.level == 0 and token.map and token.nesting >= 0]
    return sum(len(line) + 1 for line in text.split("\n")[: starts[-1]]) if starts else 0


class MarkdownScreen:
    """A text that grows on the screen. On one that can't go back, a block is written once it is finished."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._can_go_back = console.is_terminal and not console.is_dumb_terminal
        self._live: Live | None = None
        self._text, self._count = "", 0

    @property
    def is_empty(self) -> bool:
        """Return whether nothing of the text stands there."""
        return not self._text

    def show_line(self, text: str) -> None:
        """Show a dim line until something else is written."""
        if self._can_go_back:
            self._update(Text(text, style="dim"))

    def show_below(self, text: str) -> None:
        """Show a dim line below the text until that goes on."""
        line = Text(text, style="dim")
        if self._can_go_back:
            self._update(Group(_Block(self._text[self._count :], is_tail=True), line))
        else:
            self._console.print(line)

    def add(self, piece: str) -> None:
        """Write more of the text."""
        self._text += piece
        finished = find_last_block(self._text[self._count :])
        if finished:
            self._write(self._count + finished)
        if self._can_go_back and self._text[self._count :].strip():
            self._update(_Block(self._text[self._count :], is_tail=True))

    def complete(self, whole: str) -> bool:
        """Write what the whole text has more, and begin anew behind it; return False if it is another text."""
        if not whole.startswith(self._text[: self._count]):
            self.drop()
            return False
        self._text = whole
        self.end()
        return True

    def end(self) -> None:
        """Write all of the text for good; what follows is another one."""
        self._write(len(self._text))
        self.drop()

    def write_note(self, text: str) -> None:
        """Write a dim line below what stands there."""
        self.end()
        self._console.print(Text(text, style="dim"))

    def write_plain(self, text: str = "") -> None:
        """Write what is no Markdown below what stands there; a word longer than a line, such as a link, stays whole."""
        self.end()
        width = self._console.width
        lines = [fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n")]
        self._console.print(Text("\n".join(lines)), soft_wrap=True)

    def drop(self) -> None:
        """Take away what is not written for good; what follows is another text."""
        self._hide()
        self._text, self._count = "", 0

    def _write(self, end: int) -> None:
        self._hide()
        block = self._text[self._count : end]
        if block.strip():
            if self._count:
                self._console.print()
            self._console.print(_Block(block, is_tail=False))
        self._count = end

    def _update(self, content: Text | Group | _Block) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
            self._live.start()
        self._live.update(content, refresh=True)

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
