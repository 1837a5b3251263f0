"""What people may write behind a command: its function's parameters say it, to every platform."""

from datetime import date
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from adapters.discord.interactions.slash import to_command, to_line, to_payload
from adapters.slack.install.manifest import build_manifest
from adapters.slack.settings import SlackSettings
from agent.commands import answer, list_commands
from agent.commands.base import Request, command
from agent.commands.signature import REST_OF_LINE, Id, Keyword
from shared.errors import Refusal
from shared.messages import Place, Sender
from tests.standins.discord.rules import check_commands
from tests.support.parley import Parley

DIRECT = Place("test", None, "dm-ann", is_direct=True)


@command("book")
async def book(
    request: Request,
    room: Id,
    size: Literal["small", "large"],
    first: date,
    guests: Annotated[int, Field(gt=0, le=20, description="How many sleep there")] = 2,
    note: Annotated[str | None, Keyword("note"), REST_OF_LINE] = None,
) -> str:
    """Book a room."""
    return f"{room} {size} {first:%d %B} {guests} {note}"


@command("greet")
async def greet(request: Request, word: str, *_: str) -> str:
    """Greet."""
    return word


def test_the_usage_line_shows_choices_keywords_and_what_may_be_left_out() -> None:
    assert book.usage == "/book ROOM small|large FIRST [GUESTS [note NOTE]]"
    assert greet.usage == "/greet WORD"


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("#7 LARGE 2026-05-01", {"room": 7, "size": "large", "first": date(2026, 5, 1)}),
        ("7  small 2026-05-01\n3", {"room": 7, "size": "small", "first": date(2026, 5, 1), "guests": 3}),
        (
            "7 small 2026-05-01 3 NOTE two  beds",
            {"room": 7, "size": "small", "first": date(2026, 5, 1), "guests": 3, "note": "two  beds"},
        ),
    ],
)
def test_arguments_become_what_their_annotations_say(line: str, values: dict[str, Any]) -> None:
    assert book.parse(line)[1] == values


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("", ""),
        ("7", ""),
        ("x small 2026-05-01", "'x' is no number. "),
        ("7 middling 2026-05-01", ""),
        ("7 small 2026-13-01", ""),
        ("7 small 2026-05-01 21", "'21' is no number between 1 and 20. "),
        ("7 small 2026-05-01 3 beds", ""),
        ("7 small 2026-05-01 3 note", ""),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_usage_line(line: str, problem: str) -> None:
    with pytest.raises(Refusal) as refusal:
        book.parse(line)

    assert str(refusal.value) == f"{problem}Write {book.usage}."


def test_a_command_says_itself_whether_it_ignores_further_words() -> None:
    assert greet.parse("Ann and Bob")[1] == {"word": "Ann"}


def test_discord_gets_types_limits_and_choices() -> None:
    room, size, first, guests, note = to_command(book)["options"]

    assert (room["type"], room["required"]) == (4, True)
    assert (size["type"], [choice["value"] for choice in size["choices"]]) == (3, ["small", "large"])
    assert first["type"] == 3
    assert (guests["type"], guests["min_value"], guests["max_value"], guests["required"]) == (4, 1, 20, False)
    assert guests["description"] == "How many sleep there"
    assert (note["name"], note["type"]) == ("note", 3)
    check_commands(to_payload())


@given(st.data())
def test_what_is_chosen_on_discord_means_the_same_as_what_is_typed(data: st.DataObject) -> None:
    words = st.text("abcdefghij#0123456789", min_size=1)
    entry = data.draw(st.sampled_from(list_commands("discord")))
    form = data.draw(st.sampled_from(entry.forms))
    parameters = data.draw(st.lists(st.sampled_from(form.visible), unique_by=id)) if form.visible else []
    options = [
        {
            "name": parameter.name,
            "type": 3,
            "value": data.draw(st.sampled_from(parameter.choices) if parameter.is_choice else words),
        }
        for parameter in parameters
    ]
    call = options if form.word is None else [{"name": form.word, "type": 1, "options": options}]
    try:
        line = to_line(entry.name, call)
        _, values = entry.parse(line.partition(" ")[2])
    except Refusal as refusal:
        assert str(refusal).startswith(("Write ", "'"))  # noqa: PT017  # the other outcome of the same call
    else:
        assert set(values) == {parameter.variable for parameter in parameters}


def test_slack_and_the_terminal_show_the_commands_with_their_words() -> None:
    (slash_command,) = build_manifest(SlackSettings(), None)["features"]["slash_commands"]

    usages = [entry.usage.removeprefix("/") for entry in list_commands("slack") if not entry.requires]
    assert slash_command["usage_hint"] == ", ".join(["ask QUESTION", *usages])
    assert "memory list|forget WHAT|pause [everywhere]" in slash_command["usage_hint"]
    assert "grant" not in slash_command["usage_hint"]
    lines = [line for entry in list_commands("terminal") for line in entry.beginnings]
    assert {"/stop", "/memory", "/memory forget", "/persona set", "/confirm no"} <= set(lines)


async def test_help_explains_a_command_with_each_of_its_subcommands(parley: Parley) -> None:
    async def ask(line: str) -> str:
        reply = await answer(parley.app, Sender("test", "ann", "Ann"), DIRECT, line)
        assert reply is not None
        return reply.text

    lines = (await ask("/help schedule")).splitlines()
    assert lines[0].startswith("/schedule list|add REMINDER|cancel ID|pause ID|resume ID - List your reminders")
    assert lines[3] == "/schedule cancel ID - Cancel a job of the list."
    # Further words were never refused here.
    for line in ("/stop please", "/budget now", "/help stop again", "/me please", "/more 5 tokens please"):
        assert "Write /" not in await ask(line), line
    assert await ask("/more lots") == "'lots' is no number between 1 and 1,000,000,000,000. Write /more [AMOUNT]."
    assert await ask("/persona sit Cook") == "Write /persona to see who answers here, or /persona set NAME."
