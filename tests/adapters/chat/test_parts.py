"""Cutting a long answer: it always ends, every part fits, and no part leaves a code block open."""

from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.chat.parts import GUARD, size, split_text
from adapters.discord.sending import reply as discord
from adapters.discord.sending.live import render_live
from adapters.slack.sending import render as slack
from shared.files.filenames import clean_filename
from shared.text import abbreviate, cut, fence_after

MARKS = st.sampled_from(["```", "````", "~~~", "`" * 30, "`" * 1000, "```python", "~~~ sh `x`", "```" + "i" * 2500])
WORDS = st.text(alphabet="ab `~|<>@!-😀é\t", max_size=60)
LONG = st.builds(
    lambda word, count: word * count, st.sampled_from(["x", "word ", "`", "~", "😀", '{"a": 1}']), st.integers(0, 3000)
)
LINES = st.one_of(st.just(""), MARKS, WORDS, LONG, st.builds("{}{}".format, st.sampled_from(["  ", "a", "> "]), MARKS))
MARKDOWN = st.lists(LINES, max_size=12).map("\n".join)


def is_balanced(part: str) -> bool:
    fence = ""
    for line in part.split("\n"):
        fence = fence_after(fence, line)
    return not fence


def is_whole(parts: list[str], limit: int) -> bool:
    return all(0 < size(part) <= limit and is_balanced(part) for part in parts)


@pytest.mark.parametrize(
    "text",
    [
        f"```{'x' * 2500}\nand a line",
        "`" * 1000,
        f"{'`' * 1000}\ncode\n{'`' * 1000}",
        f"```json\n{'{' + 'x' * 2900 + '}'}\n```",
        f"```\n{'`' * 5000}",
        f"```{'x' * 2500}`",
        "~" * 4500,
    ],
)
@pytest.mark.parametrize("limit", [20, 300, 2000, 4000])
def test_what_is_longer_than_a_message_is_cut_all_the_same(text: str, limit: int) -> None:
    parts = split_text(text, limit)

    assert is_whole(parts, limit)


def test_a_short_text_is_one_part_as_it_is() -> None:
    assert split_text("one\n\n```py\ntwo\n```", 2000) == ["one\n\n```py\ntwo\n```"]
    assert split_text("", 20) == [""]


def test_a_code_block_that_is_cut_is_closed_and_opened_again_in_its_language() -> None:
    code = "\n".join(f"line {number}" for number in range(9))

    first, *others = split_text(f"```python\n{code}\n```\nthe end", 50)

    assert first == "```python\nline 0\nline 1\nline 2\nline 3\nline 4\n```"
    assert others == ["```python\nline 5\nline 6\nline 7\nline 8\n```\nthe end"]


def test_a_code_block_that_the_text_leaves_open_is_closed() -> None:
    assert split_text("```\nhalf", 2000) == ["```\nhalf\n```"]


def test_no_part_is_made_of_blanks_alone() -> None:
    assert [part.strip() for part in split_text(f"begin\n{' ' * 5000}\nend", 2000)] == ["begin", "end"]


@settings(max_examples=400)
@given(MARKDOWN, st.integers(20, 4000))
def test_every_part_of_any_markdown_fits_and_is_balanced_and_no_letter_is_lost(text: str, limit: int) -> None:
    parts = split_text(text, limit)

    assert is_whole(parts, limit) or parts == [""] == [text.strip()] or not text.strip()
    for letter in "xwda😀{":
        assert sum(part.count(letter) for part in parts) >= text.count(letter)


@settings(max_examples=150)
@given(MARKDOWN)
def test_every_message_of_any_answer_fits_its_platform_and_is_balanced(text: str) -> None:
    for parts, limit in (
        (discord.render(text).parts, discord.MESSAGE_LIMIT),
        (discord.render(text, may_attach=False).parts, discord.MESSAGE_LIMIT),
        ((render_live(f"So:\n{text}"),), discord.MESSAGE_LIMIT),
        (slack.render(text).parts, slack.MESSAGE_LIMIT),
        (slack.render(text, is_short=True).parts, slack.MESSAGE_LIMIT),
    ):
        assert is_whole([part for part in parts if part != GUARD], limit)


@pytest.mark.parametrize("joined", ["👩‍🚀", "🏳️‍🌈", "👍🏽", "🇫🇷", "e\u0301", "👨‍👩‍👧‍👦"])
@pytest.mark.parametrize("before", range(12))
def test_joined_characters_are_not_torn_when_a_line_is_cut(joined: str, before: int) -> None:
    parts = split_text("x" * before + joined * 40, 40)
    assert len(parts) > 1
    assert sum(part.count(joined) for part in parts) == 40
    shortened, _, _ = cut("x" * before + joined * 100, 60).partition("…")
    assert shortened.replace(joined, "").strip("x") == ""
    # Titles, labels and names of files.
    assert abbreviate("x" * before + joined * 100, 60).removesuffix("…").replace(joined, "").strip("x") == ""
    name = clean_filename("x" * before + joined * 400 + ".txt")
    assert name.removesuffix(".txt").replace(normalize("NFC", joined), "").strip("x") == ""


def test_endless_joined_characters_are_cut_all_the_same() -> None:
    assert is_whole(split_text("e" + "\u0301" * 5000, 100), 100)
