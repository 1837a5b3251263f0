"""The MIME type of a file by its content; its name and its declared type are not trusted."""

import codecs
import re

HEAD_BYTES = 16 * 1024
# They begin with plain characters, so the text check alone would call them text.
TEXT_LIKE = frozenset({"application/pdf", "application/rtf"})
# A declared type is kept only among these, and only when the content is text.
TEXT_TYPES = re.compile(r"^(text/(plain|markdown|html|csv|tab-separated-values|x-[a-z0-9.+-]{1,40})|application/json)$")
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# The entries by whose names Office files are known where the order of entries hides them from the library.
OFFICE_ENTRIES = {b"word/document.xml": WORD, b"xl/workbook.xml": EXCEL}


def detect_type(head: bytes, declared: str = "") -> str:
    """Return the MIME type of a file that begins with these bytes; `declared` only tells kinds of text apart."""
    import filetype  # Imported late: it builds its whole table of types at import.

    head = head[:HEAD_BYTES]
    known = filetype.guess_mime(head) if head else None
    if known in TEXT_LIKE:
        return str(known)
    if is_text(head):
        declared = declared.partition(";")[0].strip().lower()
        return declared if TEXT_TYPES.match(declared) else "text/plain"
    if known == "application/zip":
        return next((kind for entry, kind in OFFICE_ENTRIES.items() if entry in head), known)
    return str(known) if known else "application/octet-stream"


def is_text(head: bytes) -> bool:
    """Return whether these first bytes are UTF-8 text, or UTF-16 text with a byte order mark."""
    if head.startswith(UTF16_MARKS):
        return _decodes(head, "utf-16") and b"\x00\x00\x00" not in head
    return not CONTROL.search(head) and _decodes(head, "utf-8")


def _decodes(head: bytes, encoding: str) -> bool:
    try:
        # The last character may be incomplete.
        codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return False
    return True
