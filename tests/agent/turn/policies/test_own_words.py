"""What the person who asks has said: the values of a call that decide its effect."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.turn.policies.own_words import OwnWords, is_telling, list_deciding, split_words

SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "amount": {"type": "number"},
        "note": {"type": "string", "default": "none"},
        "more": {"type": "object", "properties": {"tag": {"type": "string"}}},
    },
}
TEXTS = (
    "Pay 1,250.50 euro to  Bob@Example.org, please. See https://example.org/a and a 1.",
    "Meet Carla's team on May 15th at 3 pm, file 'bill-2023.txt', $40, for 2'000 bikes",
)


@pytest.mark.parametrize(
    "value",
    [
        "bob@example.org",
        1250.5,
        "1250.50",
        "1,250.5",
        "2000",
        "2'000.0",
        "EURO to bob@example.org.",
        "https://example.org/a",
        "Carla",
        "bill-2023.txt",
        40,
        "2027-05-15",
        "2027-05-15T15:00:00",
        "2027-05-15 15:00",
    ],
)
def test_values_that_the_person_has_typed_are_said(value: Any) -> None:
    assert OwnWords(TEXTS).say(value)


@pytest.mark.parametrize(
    "value",
    [
        "bob@example.or",
        "example.org",
        "bob example.org",
        "https://example.org",
        "eve@evil.example",
        250.5,
        2023,
        99,
        "Bob euro",
        "a 1. Meet Carla",
        "2027-05-16",
        "2027-05-15 14:00",
        "2027-13-45",
    ],
)
def test_parts_joins_and_other_values_are_not(value: Any) -> None:
    assert not OwnWords(TEXTS).say(value)


SAID = "Mail info@strasse.example and \uff42\uff4f\uff42 👩\u200d🚀, STRASSE\u2019S Größe"


@pytest.mark.parametrize(
    "value", ["INFO@strasse.example", "bob", "\uff42\uff4f\uff42 👩\u200d🚀", "größe", "strasse's", "Gro\u0308ße"]
)
def test_the_same_letters_are_said_whatever_their_case_and_composition(value: str) -> None:
    assert OwnWords([SAID]).say(value)


@pytest.mark.parametrize(
    "value",
    ["info@stra\u00dfe.example", "info@strasse.example\u200b", "\uff49nfo@strasse.example", "\u00adbob", "stra\u00dfe"],
)
def test_letters_that_name_something_else_are_not(value: str) -> None:
    assert not OwnWords([SAID]).say(value)


@pytest.mark.parametrize(
    ("words", "time"),
    [
        ("12 am", "00:00"),
        ("12am", "00:00"),
        ("9:00 am", "09:00"),
        ("9:30 am", "09:30"),
        ("9:30", "09:30"),
        ("09:30", "09:30"),
        ("12 pm", "12:00"),
        ("12:15pm", "12:15"),
        ("11pm", "23:00"),
    ],
)
def test_a_time_is_said_as_people_write_it_and_no_other_one(words: str, time: str) -> None:
    words_of_person = OwnWords([f"on 15 May, {words}, at the yard"])

    times = ("00:00", "00:15", "09:00", "09:30", "12:00", "12:15", "21:30", "23:00")
    assert [time for time in times if words_of_person.say(f"2027-05-15T{time}")] == [time]


def test_what_stands_in_lists_decides_by_the_rules_of_the_list() -> None:
    rule = {"properties": {"name": {"type": "string"}, "size": {"type": "integer", "default": 1}}}
    schema = {"properties": {"to": {"type": "array", "items": rule}, "tags": {"type": "array"}}}
    arguments = {"to": [{"name": "bob", "size": 1}, {"name": "eve", "size": 2}], "tags": ["a", ["b"], None]}

    assert list(list_deciding(arguments, schema)) == ["bob", "eve", 2, "a", "b"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pay 1,50 to Bob", 150),
        ("pay 1,50 to Bob", "150"),
        ("he is 5'11 tall", 511),
        ("send 500 to Bob", "-500"),
        ("delete the txt files", "*.txt"),
        ("remove etc/passwd from the list", "../../etc/passwd"),
        ("remove srv notes", "/srv notes"),
        ("remove tmp notes", "tmp / notes"),
        ("tell everyone", "@everyone"),
        ("compare rf and gf", "-rf"),
        ("run a b", "a | b"),
        ("open home", "~/home"),
    ],
)
def test_a_mark_that_makes_it_another_value_was_not_said(text: str, value: Any) -> None:
    assert not OwnWords([text]).say(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pay 1,50 to Bob", 1.5),
        ("pay 1'250 to Bob", 1250),
        ("delete (*.txt) now", "*.txt"),
        ("see /etc/passwd.", "/etc/passwd"),
        ("write to @Bob, please", "bob"),
        ("- buy milk\n- buy eggs", "buy milk - buy eggs"),
        ("run `rm -rf /` there", "rm -rf /"),
        ("see https://example.org/.", "https://example.org"),
    ],
)
def test_the_same_with_its_marks_was_said(text: str, value: Any) -> None:
    assert OwnWords([text]).say(value)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("Lunch on 2024-05-19 at 12:00 for one hour", "2024-05-19 13:00"),
        ("a 1-hour long call on May 16th at 10 am", "2024-05-16T11:00:00"),
        ("On 2024-05-19 at 23:00, for 2 hours and 30 minutes.", "2024-05-20 01:30"),
        ("half an hour on 19 May at 9:15", "2024-05-19 09:45"),
        ("Treffen 2024-05-19 um 12:00 für zwei Stunden", "2024-05-19 14:00"),
        ("Treffen 2024-05-19 um 12:00, eine halbe Stunde", "2024-05-19 12:30"),
    ],
)
def test_the_end_of_what_was_said_to_begin_and_to_last_so_long_is_said(text: str, end: str) -> None:
    assert OwnWords([text]).say(end)


@pytest.mark.parametrize(
    ("texts", "end"),
    [
        (["Lunch on 2024-05-19 at 12:00"], "2024-05-19 13:00"),
        (["Lunch on 2024-05-19 at 12:00 for one hour"], "2024-05-19 14:00"),
        # Neither without a time of day, nor without a day, nor twice as long.
        (["Lunch on 2024-05-19 for one hour"], "2024-05-19 01:00"),
        (["Lunch at 12:00 for one hour"], "2024-05-19 13:00"),
        (["Lunch on 2024-05-19 at 12:00 for one hour"], "2024-05-20"),
        (["Lunch on 2024-05-19 at 12:00, 10.5 hours"], "2024-05-19 17:00"),
        (["Lunch on 2024-05-19 at 12:00, the 61st hour"], "2024-05-19 13:00"),
        (["Lunch on 2024-05-19 at 12:00, 99999 minutes"], "2024-07-27 22:39"),
        (["Lunch on 2024-05-19 at 12:00 for one hour"], "0001-01-01 00:30"),
    ],
)
def test_other_moments_do_not_follow_from_a_beginning_and_a_duration(texts: list[str], end: str) -> None:
    assert not OwnWords(texts).say(end)


def test_defaults_booleans_and_empty_values_decide_nothing() -> None:
    arguments = {"to": "bob", "note": "none", "more": {"tag": "x", "deep": {"free": True}}, "amount": None}

    assert list(list_deciding(arguments, SCHEMA)) == ["bob", "x", "deep", "free"]


def test_short_words_and_small_numbers_tell_nothing() -> None:
    assert [is_telling(value) for value in ("a", "me", "bob", 1, 10)] == [False, False, True, False, True]


@given(st.text("ab1 .@", max_size=30), st.text("ab1 .@", max_size=8))
def test_what_is_said_has_only_words_of_the_text(text: str, value: str) -> None:
    if OwnWords([text]).say(value):
        words = set(split_words(text))
        assert words.issuperset(split_words(value)) or value.strip().isdigit()
