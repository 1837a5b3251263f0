"""A program that reads a document from standard input and writes its text to standard output.

It runs in the sandbox. With exit status 3, standard error has one sentence that says why the document can't be read;
any other failure means that it is damaged or a decompression bomb.
"""

import csv
import io
import logging
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Never
from xml.etree import ElementTree

MAX_CHARS = 1_000_000
MAX_ENTRIES = 1000
MAX_UNPACKED_BYTES = 100 * 1024 * 1024
MAX_RATIO = 100
# Smaller archives may exceed the ratio, because short repetitive parts compress well.
RATIO_CHECKED_FROM_BYTES = 1024 * 1024
UNREADABLE = 3
W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
HIDDEN_TAGS = frozenset({"script", "style", "head", "template", "noscript"})
BLOCK_TAGS = frozenset(
    {
        "p",
        "div",
        "br",
        "li",
        "tr",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "pre",
        "table",
        "section",
        "article",
        "blockquote",
    }
)


def main() -> None:
    """Convert one document; the first argument is its kind: pdf, docx, xlsx or html."""
    # Standard error must contain nothing but the reason.
    logging.disable()
    kinds: dict[str, Callable[[bytes], Iterator[str]]] = {"pdf": pdf, "docx": docx, "xlsx": xlsx, "html": html}
    size = 0
    for part in kinds[sys.argv[1]](sys.stdin.buffer.read()):
        piece = part[: MAX_CHARS - size]
        sys.stdout.buffer.write(piece.encode("utf-8", "replace"))
        size += len(piece)
        if size >= MAX_CHARS:
            break
    sys.stdout.buffer.flush()


def refuse(reason: str) -> Never:
    """Exit with the reason why the document can't be read."""
    sys.stderr.write(reason)
    sys.exit(UNREADABLE)


def pdf(content: bytes) -> Iterator[str]:
    """Yield the text of each page; exits when the PDF is encrypted or has no text."""
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        refuse("it is locked with a password.")
    has_text = False
    for page in reader.pages:
        text = page.extract_text().strip()
        has_text = has_text or bool(text)
        yield text + "\n\n"
    if not has_text:
        refuse("the PDF has no text in it, perhaps only scanned pictures.")


def docx(content: bytes) -> Iterator[str]:
    """Yield the text of each paragraph and of each table row."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_archive(archive)
        xml = archive.read("word/document.xml")
    if b"<!DOCTYPE" in xml:
        refuse("it is no proper Word document.")
    body = ElementTree.fromstring(xml).find(f"{W}body")  # noqa: S314  # no DTD, and memory and time are bounded
    for block in body if body is not None else ():
        if block.tag == f"{W}tbl":
            yield from (
                " | ".join(paragraph(cell) for cell in row.iter(f"{W}tc")) + "\n" for row in block.iter(f"{W}tr")
            )
        else:
            yield from (paragraph(node) + "\n" for node in block.iter(f"{W}p"))


def xlsx(content: bytes) -> Iterator[str]:
    """Yield the rows of each sheet as CSV, below a line with the sheet's name; formulas as their last values."""
    from openpyxl import load_workbook

    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_archive(archive)
    book = load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    for sheet in book.worksheets:
        yield f"# {sheet.title}\n"
        for row in sheet.iter_rows(values_only=True):
            cells = ["" if value is None else str(value) for value in row]
            while cells and not cells[-1]:
                cells.pop()
            if cells:
                yield csv_line(cells)
        yield "\n"


def csv_line(cells: list[str]) -> str:
    """Return one line of CSV."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def check_archive(archive: zipfile.ZipFile) -> None:
    """Exit when the archive is a decompression bomb, before anything is unpacked."""
    entries = archive.infolist()
    unpacked = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    if len(entries) > MAX_ENTRIES or unpacked > MAX_UNPACKED_BYTES:
        refuse("it unpacks to more than is allowed.")
    if unpacked > RATIO_CHECKED_FROM_BYTES and unpacked > MAX_RATIO * max(packed, 1):
        refuse("it unpacks to more than is allowed.")


def paragraph(element: ElementTree.Element) -> str:
    """Return the text of a paragraph or cell, without deleted text and field codes, which have other tags."""
    marks = {f"{W}tab": "\t", f"{W}br": "\n", f"{W}cr": "\n"}
    return "".join(
        (node.text or "") if node.tag == f"{W}t" else marks[node.tag]
        for node in element.iter()
        if node.tag == f"{W}t" or node.tag in marks
    )


def html(content: bytes) -> Iterator[str]:
    """Yield the visible text of the page."""
    page = Page()
    page.feed(content.decode("utf-8-sig", "replace"))
    page.close()
    text = re.sub(r"[ \t\r\f]+", " ", "".join(page.parts))
    yield re.sub(r" ?\n[ \n]*\n ?", "\n\n", text).strip() + "\n"


class Page(HTMLParser):
    """Collects the visible text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Track hidden elements; add line breaks before blocks and separators before cells."""
        if tag in HIDDEN_TAGS:
            self._hidden_depth += 1
        elif tag in BLOCK_TAGS:
            self.parts.append("\n")
        elif tag in {"td", "th"}:
            self.parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        """Track hidden elements; add line breaks after blocks."""
        if tag in HIDDEN_TAGS:
            self._hidden_depth = max(0, self._hidden_depth - 1)
        elif tag in BLOCK_TAGS:
            self.parts.append("\n")

    def keep(self, data: str) -> None:
        """Collect visible text."""
        if not self._hidden_depth:
            self.parts.append(data)

    # `HTMLParser` calls this method `handle_data`.
    handle_data = keep


if __name__ == "__main__":
    main()
