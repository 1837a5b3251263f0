"""A program that reads a document as JSON from standard input and writes it as a file to standard output.

The first argument is the kind: html (the body of a page), docx, pdf or xlsx. It runs in the sandbox: the text may be a
stranger's, and the time that Markdown takes can grow with the square of its length. With exit status 3, standard error
has one sentence that says why the document can't be made.
"""

import csv
import io
import json
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

IMPOSSIBLE = 3
FONT_STYLES = {"": "Regular", "B": "Bold", "I": "Italic", "BI": "BoldItalic"}
# A number that a table may hold as a number: neither a code with zeros in front nor a date.
NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,12})?")
# As in shared/text.py, which this program does not import.
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")
MAX_COLUMN_WIDTH = 60
MAX_SHOWN_LETTERS = 10


def main() -> None:
    """Make one document."""
    # Standard error must contain nothing but the reason.
    logging.disable()
    kinds: dict[str, Callable[[str, str], bytes]] = {"html": html, "docx": docx, "pdf": pdf, "xlsx": xlsx}
    document = json.load(sys.stdin.buffer)
    sys.stdout.buffer.write(kinds[sys.argv[1]](document["title"], document["content"]))
    sys.stdout.buffer.flush()


def html(_title: str, content: str) -> bytes:
    """Return Markdown as HTML; HTML in it is shown as text."""
    return to_html(content, with_images=True).encode()


def to_html(content: str, *, with_images: bool = False) -> str:
    """Convert Markdown; the writers of files would fetch images from their URLs, so these stay text for them."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return str((markdown if with_images else markdown.disable("image")).render(content))


def docx(title: str, content: str) -> bytes:
    """Return Markdown as a Word document."""
    from docx import Document
    from html4docx import HtmlToDocx

    document = Document()
    document.core_properties.title = title[:255]
    HtmlToDocx().add_html_to_document(to_html(content), document)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def pdf(title: str, content: str) -> bytes:
    """Return Markdown as a PDF; exits when its font lacks letters of the text."""
    import font_roboto
    from fpdf import FPDF

    fonts = Path(str(font_roboto.__file__)).parent / "files"
    document = FPDF(format="A4")
    document.set_title(title)
    for style, name in FONT_STYLES.items():
        document.add_font("roboto", style, fonts / f"Roboto-{name}.ttf")
    document.set_font("roboto", size=11)
    font: Any = document.fonts["roboto"]
    letters = sorted({letter for letter in content if letter > " " and ord(letter) not in font.cmap})
    if letters:
        excerpt = "".join(letters[:MAX_SHOWN_LETTERS])
        sys.stderr.write(
            f"the font of PDF files has no letters for {excerpt!r}; leave them out, or write docx or html."
        )
        sys.exit(IMPOSSIBLE)
    document.add_page()
    document.write_html(to_html(content), font_family="roboto")
    return bytes(document.output())


def xlsx(title: str, content: str) -> bytes:
    """Return CSV as an Excel workbook: numbers as numbers, all else as text, never as a formula."""
    from openpyxl import Workbook
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter

    book = Workbook()
    sheet: Any = book.active
    sheet.title = re.sub(r"[\[\]:*?/\\']", " ", title)[:31].strip() or "Sheet1"
    widths: dict[int, int] = {}
    for number, row in enumerate(csv.reader(io.StringIO(content, newline="")), 1):
        for column, text in enumerate(row, 1):
            cell = sheet.cell(number, column)
            if NUMBER.fullmatch(text):
                cell.value = float(text) if "." in text else int(text)
            else:
                cell.value = text
                cell.data_type = "s"
                # Text stays text when somebody edits it, or saves the sheet as CSV and opens that.
                cell.quotePrefix = FORMULA.match(text) is not None
            cell.font = Font(bold=number == 1)
            widths[column] = min(MAX_COLUMN_WIDTH, max(widths.get(column, 8), len(text) + 2))
    for column, width in widths.items():
        sheet.column_dimensions[get_column_letter(column)].width = width
    sheet.freeze_panes = "A2"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


if __name__ == "__main__":
    main()
