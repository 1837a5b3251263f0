"""File names, storage keys, and the detection of file types."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.files.file_types import WORD, detect_type
from shared.files.filenames import clean_filename, new_key

PNG = codecs.decode("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489", "hex")


@pytest.mark.parametrize(
    ("given_name", "clean"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\plan.docx", "plan.docx"),
        ("/", "file"),
        ("..", "file"),
        ("", "file"),
        (".env", "env"),
        ("a\x00b\nc\r.txt", "abc.txt"),
        ("exe\u202etxt.pdf", "exetxt.pdf"),
        ("Übersicht März 日本語.md", "Übersicht März 日本語.md"),
        ("u\u0308ber.txt", "über.txt"),
        ('a<b>:"c|?*.txt', "a_b___c___.txt"),
        ("  two   words .txt  ", "two words .txt"),
        ("x" * 300 + ".pdf", "x" * 196 + ".pdf"),
        ("文" * 120 + ".csv", "文" * 81 + ".csv"),
    ],
)
def test_a_name_is_cleaned(given_name: str, clean: str) -> None:
    assert clean_filename(given_name) == clean


@given(st.text(st.characters(), max_size=400))
def test_a_cleaned_name_is_short_and_visible_and_cleaning_it_again_changes_nothing(name: str) -> None:
    cleaned = clean_filename(name)

    assert 1 <= len(cleaned) <= 200
    assert len(cleaned.encode()) <= 255
    assert not set(cleaned) & set('/\\<>:"|?*\n\r\t\x00\x7f\u202e\u2066\u200b\ufeff')
    assert cleaned not in {".", ".."}
    assert clean_filename(cleaned) == cleaned
    cleaned.encode()


@given(st.text(st.characters(), max_size=400))
def test_keys_for_any_name_are_plain_and_unique(name: str) -> None:
    first, second = new_key("7", name), new_key("7", name)

    assert first != second
    assert first.isascii()
    assert len(first) < 150
    assert [part in {"", ".", ".."} for part in first.split("/")] == [False, False, False]


@pytest.mark.parametrize(
    ("content", "declared", "mime_type"),
    [
        (b"hello", "", "text/plain"),
        (b"", "", "text/plain"),
        (b"# Title", "text/markdown", "text/markdown"),
        (b"a,b\n1,2\n", "text/csv; charset=utf-8", "text/csv"),
        (b'{"a": 1}', "application/json", "application/json"),
        ("grüß dich".encode(), "image/png", "text/plain"),
        (b"hello", "image/svg+xml", "text/plain"),
        (b"hello", "application/x-msdownload", "text/plain"),
        (PNG, "text/plain", "image/png"),
        (PNG, "", "image/png"),
        (b"%PDF-1.4 all plain characters", "text/plain", "application/pdf"),
        (b"BM is how this sentence begins", "", "text/plain"),
        (b"MZ, he said", "", "text/plain"),
        (b"MZ\x90\x00\x03\x00\x00\x00", "text/plain", "application/x-msdownload"),
        (b"\x00\x01\x02\x03", "text/plain", "application/octet-stream"),
        ("grüß".encode("latin-1"), "text/plain", "text/plain"),
        ("Ort;Betrag\nKöln;12,50 €\n".encode("cp1252"), "text/csv", "text/csv"),
        ("grüß dich".encode("utf-16"), "", "text/plain"),
        (b"PK\x03\x04" + bytes(26) + b"word/document.xml", "", WORD),
    ],
)
def test_the_type_is_detected_from_the_content(content: bytes, declared: str, mime_type: str) -> None:
    assert detect_type(content, declared) == mime_type


def test_a_character_cut_at_the_end_of_the_head_is_still_text() -> None:
    assert detect_type(b"x" * (16 * 1024 - 1) + "ü".encode()) == "text/plain"
