"""The parts in which a reply is sent: its text, split so that every part fits the platform's limit, and its files."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from shared.errors import FileDamaged, FileLost, NotFound, Unavailable
from shared.messages import ReplyFile
from shared.text import clean, fence_after, fence_mark, find_cut, is_one_message, may_fence, to_label

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

    from agent.app import App


MOST_FILES = 10
# A cell of a table takes 20 µs to render.
MOST_CELLS = 5000
AS_FILE = "The whole answer is in the file."
UNREADABLE = {FileLost: "lost from the file store", FileDamaged: "damaged in the file store"}
# A zero-width prefix keeps a piece of a longer line from being read as a fence.
GUARD = "\N{ZERO WIDTH SPACE}"
FENCED_LINES = re.compile(r"^ {0,3}(?:`{3}|~{3}).*$", re.MULTILINE)


def split_text(text: str, limit: int) -> list[str]:
    """Return the text in parts of at most `limit` characters (at least 20).

    It is split between lines if possible, else between words, else anywhere. A code block that is split is closed and
    opened again in the next part; one that the text leaves open is closed.
    """
    parts: list[str] = []
    part, fence, reopened = "", "", ""
    # Counted as the part grows: to measure it for each line of a long text takes seconds.
    part_size = 0
    for line in text.split("\n"):
        after = fence_after(fence, line)
        if len(fence_mark(after)) > limit // 6:
            # A longer fence would leave too little room when every part repeats it.
            after = fence
        if reopened and not after and part.rstrip("\n") == reopened:
            # Nothing of the block is left for this part; Discord does not end an empty block where it is closed.
            part, fence, reopened, part_size = "", "", "", 0
            continue
        for piece in _pieces(line, limit, fence, after=after):
            piece_size = size(piece)
            if part and part_size + 1 + piece_size + _closing_size(after) > limit:
                _close(parts, part, fence)
                part = reopened = _reopening(fence, limit)
                part_size = size(part)
            part_size = part_size + 1 + piece_size if part else piece_size
            part = f"{part}\n{piece}" if part else piece
            fence = after
    _close(parts, part, fence)
    return parts or [part]


def size(text: str) -> int:
    """Return the length in UTF-16 units, which platforms count: an emoji has two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "replace")) // 2


def _close(parts: list[str], part: str, fence: str) -> None:
    # Platforms refuse a message of blanks.
    if part.strip():
        parts.append(part + (f"\n{fence_mark(fence)}" if fence else ""))


def _closing_size(fence: str) -> int:
    return len(fence_mark(fence)) + 1 if fence else 0


def _reopening(fence: str, limit: int) -> str:
    # The info string is repeated unless it would leave little room for the text.
    return fence if size(fence) <= limit // 4 else fence_mark(fence)


def _pieces(line: str, limit: int, before: str, after: str) -> list[str]:
    """Return the line in pieces that fit into a part; only the first one may open or close a code block."""
    fence = before or after
    if before and not after:
        # There is always room for a closing fence, but not for text behind it.
        return [line if size(line) <= len(fence_mark(before)) else fence_mark(before)]
    room = limit - _closing_size(fence) - (size(_reopening(fence, limit)) + 1 if fence else 0)
    if may_fence(line):
        room -= len(GUARD)
    # The indentation of a fence is not a place to split.
    rest = line if after == before else line.lstrip()
    room = room if size(rest) == len(rest) else room // 2
    texts: list[str] = []
    while len(rest) > room:
        at = rest.rfind(" ", room // 2, room)
        at = find_cut(rest, room) if at < 0 else at + 1
        texts.append(rest[:at])
        rest = rest[at:]
    pieces, state = [], before
    for piece in [*texts, rest]:
        is_meant = fence_after(state, piece) == state or (state != after and bool(fence_after(state, piece)))
        pieces.append(piece if is_meant else GUARD + piece)
        state = after
    return pieces


class Post(Struct, frozen=True):
    """One message. `check` is awaited just before each request; it raises when another process posts it."""

    text: str
    key: str
    reply_to: str | None = None
    allows_mentions: bool = False
    check: Callable[[], Awaitable[None]] | None = None


class Upload(Struct, frozen=True):
    """A file to be uploaded."""

    filename: str
    content: bytes


class Rendered(Struct, frozen=True):
    """The parts of an answer in order, and the whole as a file if it is too long."""

    parts: tuple[str, ...]
    file: Upload | None = None


def to_parts(text: str, markup: str, *, limit: int, most: int, preview: int) -> Rendered:
    """Return an answer in parts; if there are more than `most`, as a file behind `preview` characters of it.

    `markup` is the text in the platform's form.
    """
    parts = [markup] if is_one_message(markup, limit) else split_text(markup, limit)
    if len(parts) <= most:
        return Rendered(tuple(parts))
    beginning = split_text(markup[: 2 * preview], preview)[0]
    return Rendered((f"{beginning}\n\n… {AS_FILE}",), Upload("answer.md", clean(text).encode()))


def last_part(text: str, limit: int, to_markup: Callable[[str], str] = str) -> str:
    """Return the end of a text that grows, in the platform's form, as far as it fits."""
    if len(text) > 2 * limit:
        # Enough of the end to fill a message, beginning in the code block in which it is.
        start = len(text) - 2 * limit
        start = text.rfind("\n", 0, start) + 1 or start
        fence = ""
        for line in FENCED_LINES.finditer(text, 0, start):
            fence = fence_after(fence, line[0])
        end = text[max(start, len(text) - 4 * limit) :]
        text = f"{fence}\n{end}" if fence else end
    parts = split_text(to_markup(text), limit - 2)
    return parts[0] if len(parts) == 1 else f"…\n{parts[-1]}"


def to_html(text: str) -> str | None:
    """Return the HTML of Markdown, in which HTML is text and nothing is loaded; None where that would take too long."""
    lines = text.split("\n")
    if len(lines) * max(line.count("|") for line in lines) > MOST_CELLS:
        return None
    return str(_markdown().render(text)).strip()


def to_plain_text(text: str) -> str:
    """Return what people read in Markdown, as one line."""
    words: list[str] = []
    for block in _markdown().parse(text):
        parts = block.children or [block]
        words += [" " if part.type in ("softbreak", "hardbreak") else part.content for part in parts] + [" "]
    return " ".join("".join(words).split())


@cache
def _markdown() -> "MarkdownIt":
    # Only where an answer has to be rendered: its import takes 30 ms.
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False, "breaks": True})
    return markdown.enable(["table", "strikethrough"]).disable("image")


def links_to(files: Iterable[ReplyFile]) -> list[str]:
    """Return a line with a link for each file, in Markdown."""
    return [f"\n[{to_label(file.filename)}]({file.url})" for file in files]


async def collect(
    app: "App", files: Sequence[ReplyFile], max_bytes: int, *, allows_empty: bool = True
) -> tuple[list[Upload], list[ReplyFile]]:
    """Return the files that fit into `max_bytes` bytes in all, with one place kept free, and the others."""
    uploads: list[Upload] = []
    others: list[ReplyFile] = []
    for file in files:
        if file.size_bytes > max_bytes or len(uploads) >= MOST_FILES - 1:
            others.append(file)
            continue
        try:
            _, chunks = await app.files.storage.open(app.database, file.file_id)
            async with aclosing(chunks) as pieces:
                content = b"".join([piece async for piece in pieces])
        except (FileLost, FileDamaged) as error:
            others.append(replace(file, filename=f"{file.filename} ({UNREADABLE[type(error)]})"))
        except (NotFound, Unavailable):
            others.append(file)
        else:
            if not (content or allows_empty):
                others.append(file)
                continue
            uploads.append(Upload(file.filename, content))
            max_bytes -= len(content)
    return uploads, others
