"""The MIME type of a file by its content; its name and its declared type are not trusted."""

import codecs
import re

HEAD_BYTES = 16 * 1024
# They begin with plain characters, so the text check alone would call them text.
TEXT_LIKE = frozenset({"application/pdf", "application/rtf"})
# A declared type is kept only among these, and only when the content is text.
TEXT_TYPES = re.compile(r"^(text/(plain|markdown|html|csv|tab-separated-values|x-[a-z0-9.+-]{1,40})|application/json)$")
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
# What text is looked at to find its encoding, and the encodings that it may have besides UTF-8 and UTF-16.
SAMPLE_BYTES = 256 * 1024
USUAL = "cp1252"
ENCODINGS = (
    *(USUAL, "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "iso8859_2", "iso8859_15", "koi8_r"),
    *("cp932", "euc_jp", "gb18030", "big5", "euc_kr"),
)
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
# The entries by whose names Office files are known where the order of entries hides them from the library.
OFFICE_ENTRIES = {b"word/document.xml": WORD, b"xl/workbook.xml": EXCEL}


def detect_type(head: bytes, declared: str = "") -> str:
    """Return the MIME type of a file that begins with these bytes; `declared` only tells kinds of text apart."""
    import filetype  # Imported late: it builds its whole table of types at import.

    head = head[:HEAD_BYTES]
    mime_type = filetype.guess_mime(head) if head else None
    if mime_type in TEXT_LIKE:
        return str(mime_type)
    if is_text(head):
        return _to_text_type(declared)
    if mime_type == "application/zip":
        return next((kind for entry, kind in OFFICE_ENTRIES.items() if entry in head), mime_type)
    if mime_type:
        return str(mime_type)
    is_older_text = bool(head) and not CONTROL.search(head) and find_encoding(head) is not None
    return _to_text_type(declared) if is_older_text else "application/octet-stream"


def _to_text_type(declared: str) -> str:
    plain = declared.partition(";")[0].strip().lower()
    return plain if TEXT_TYPES.match(plain) else "text/plain"


def is_text(head: bytes) -> bool:
    """Return whether these first bytes are UTF-8 text, or UTF-16 text with a byte order mark."""
    if head.startswith(UTF16_MARKS):
        return _decodes(head, "utf-16") and b"\x00\x00\x00" not in head
    return not CONTROL.search(head) and _decodes(head, "utf-8")


def find_encoding(content: bytes) -> str | None:
    """Return the encoding of text, by its name in Python; None for bytes that are no text.

    Of older encodings it is the one in which the text reads most like one; where the text is the same in several, or
    says too little to tell, it is Windows-1252, that of spreadsheets.
    """
    if content.startswith(UTF16_MARKS):
        return "utf-16"
    if _decodes(content, "utf-8"):
        return "utf-8-sig"
    # Whole lines: the last character may be incomplete.
    sample = content[:SAMPLE_BYTES]
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    if CONTROL.search(sample):
        return None
    from charset_normalizer import from_bytes  # Imported late: only text in older encodings needs it.

    matches = from_bytes(sample, cp_isolation=[*ENCODINGS], preemptive_behaviour=False)
    best = matches.best()
    if best is None:
        return None
    as_likely = [match for match in matches if match.chaos <= best.chaos and match.coherence >= best.coherence]
    return USUAL if any(USUAL in candidate.could_be_from_charset for candidate in as_likely) else best.encoding


def _decodes(head: bytes, encoding: str) -> bool:
    try:
        # The last character may be incomplete.
        codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return False
    return True
