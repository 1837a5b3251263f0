"""Sanitising and shortening of text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.calls import depth
from shared.text import (
    MAX_ID,
    clean,
    clean_json,
    cut,
    cut_nesting,
    is_plain_name,
    to_id,
    to_plain_name,
    to_text_cell,
    write_json,
)

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("", ""),
        ("nul\x00byte", "nulbyte"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("\udc00", "\ufffd"),
        ("split \ud83d\ude00 pair", "split \U0001f600 pair"),
        ("größe \U0001f600", "größe \U0001f600"),
    ],
)
def test_characters_that_postgres_or_providers_refuse_are_removed(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@given(ANY_TEXT)
def test_cleaned_text_is_valid_utf8_and_cleaning_it_again_changes_nothing(text: str) -> None:
    cleaned = clean(text)

    assert "\x00" not in cleaned
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert clean(cleaned) == cleaned


def test_all_strings_and_keys_of_a_json_value_are_cleaned() -> None:
    value = {"a\x00": ["\ud800", {"b": ("x\x00", 1, None, True)}], 2: 0.5}

    assert clean_json(value) == {"a": ["\ufffd", {"b": ["x", 1, None, True]}], "2": 0.5}


def test_nan_and_infinity_become_strings() -> None:
    cleaned = clean_json([float("nan"), float("inf"), float("-inf"), 1e308])

    assert cleaned == ["nan", "inf", "-inf", 1e308]
    json.dumps(cleaned, allow_nan=False)


@given(ANY_TEXT, st.integers(min_value=40, max_value=200))
def test_a_cut_text_is_within_its_limit_and_names_the_original_length(text: str, limit: int) -> None:
    excerpt = cut(text, limit)

    assert len(excerpt) <= limit
    assert excerpt == text if len(text) <= limit else excerpt.endswith(f"… [cut: {len(text):,} characters in all]")


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(alphabet='[]{}"\\a', max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
)


@given(VALUES, st.integers(1, 6))
def test_what_is_nested_deeper_becomes_null_and_the_rest_stays(value: object, levels: int) -> None:
    shallow = json.loads(cut_nesting(json.dumps(value), levels))

    # A value in the innermost list counts as a level.
    assert depth(shallow) <= levels + 1
    if depth(value) <= levels:
        assert shallow == value


@given(st.text(alphabet="=+-@ \t\r\n1a.,'", max_size=8))
def test_no_cell_begins_a_formula(cell: str) -> None:
    cell_text = to_text_cell(cell)

    assert cell_text in (cell, f"'{cell}")
    assert cell_text.lstrip()[:1] not in ("=", "@")
    assert cell_text == cell or not cell.strip(" ").isdecimal()


@pytest.mark.parametrize(
    "name", ["Acme Corp", "team-sales-2026", "standup-2026-05-12", "Grüße aus Köln", "日本語 ちゃんねる", "a.b", "v2.0"]
)
def test_a_name_of_few_words_is_a_plain_one(name: str) -> None:
    assert is_plain_name(name)
    assert to_plain_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "eve@evil.example",
        "eve\uff20evil\uff0eexample",
        "evil\u3002example",
        "evil\u200b.example",
        "evil\u00ad\u2024example",
        "https\uff1a\uff0f\uff0fevil",
        "call +49 170 1234 56",
        "\uff11\uff12\uff13\uff14\uff15",
        "DE89 3704 0044 05",
    ],
)
def test_a_name_with_an_address_or_a_number_to_call_is_none(name: str) -> None:
    assert not is_plain_name(name)


@given(st.text(alphabet="ab1 5-.:/@\\\uff20\uff0e\u3002\u200b\u00ad\uff15é日", max_size=30) | ANY_TEXT)
def test_a_name_that_is_cut_is_a_plain_one(name: str) -> None:
    plain = to_plain_name(clean(name))

    assert is_plain_name(plain)
    assert plain or not name


@pytest.mark.parametrize(
    "value",
    [
        {"a": ["x", 1, None, True]},
        {"a": "whole \U0001f600"},
        {"a\x00": "half \ud83d, none \x00"},
        [float("nan"), 1e308],
        "\\ud83d",
    ],
)
def test_json_text_is_as_clean_as_the_value(value: object) -> None:
    assert json.loads(write_json(value)) == clean_json(value)


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
