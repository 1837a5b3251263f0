"""Ids that people type."""

import pytest

from shared.models.base import MAX_ID, to_id


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("7", 7),
        ("007", 7),
        ("0", 0),
        (str(MAX_ID), MAX_ID),
        (str(MAX_ID + 1), None),
        # Python refuses to read so many digits.
        ("9" * 5000, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("²", None),
    ],
)
def test_an_id_is_read_or_is_none(typed: str, number: int | None) -> None:
    assert to_id(typed) == number
