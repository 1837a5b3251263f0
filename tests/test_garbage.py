"""Garbage in messages, model answers and results is cleaned, cut or reported, and no message is lost."""

import json

import pytest

from agent.tools.modules import ModuleTools
from shared.db.database import Address
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import last_user_text
from tests.support.parley import Parley
from tests.support.recovery import open_parley_with

NUL, LONE = "\x00", "\ud800"
GARBAGE = f"a{NUL}b{LONE}c"
CLEAN = "ab\ufffdc"


async def test_a_message_of_nul_bytes_and_lone_surrogates_is_cleaned_and_answered(parley: Parley) -> None:
    reply = await parley.ask(GARBAGE, username=GARBAGE, server="s", channel=GARBAGE, thread=GARBAGE, user=GARBAGE)

    assert reply.error is None
    assert CLEAN in last_user_text(parley.model.requests[0].body)
    assert await parley.value("SELECT content FROM messages WHERE role = 'user'") == CLEAN
    assert await parley.value("SELECT speaker FROM messages WHERE role = 'user'") == CLEAN


async def test_an_event_id_of_garbage_is_accepted_once(parley: Parley) -> None:
    first = await parley.ask("hello", event_id=GARBAGE)
    second = await parley.ask("hello", event_id=GARBAGE)

    assert first.turn_id == second.turn_id


async def test_an_attachment_with_a_name_of_garbage_does_not_break_its_message(parley: Parley) -> None:
    await parley.app.files.storage.put("stage/note", b"a note", "text/plain")

    reply = await parley.ask("look", attachments=[parley.attach(f"{GARBAGE}.txt", "stage/note")])

    assert reply.error is None
    assert await parley.value("SELECT status FROM file_records") == "stored"


async def test_an_almost_empty_message_is_answered(parley: Parley, subtests: pytest.Subtests) -> None:
    for content in ("", " ", NUL, "\u202e\u200b", "\U0001f600" * 2000):
        with subtests.test(repr(content[:10])):
            parley.model.play([Answer("What do you mean?")])

            assert (await parley.ask(content)).content == "What do you mean?"


async def test_the_answer_of_a_model_is_cleaned(parley: Parley) -> None:
    parley.model.play([Answer(GARBAGE)])

    assert (await parley.ask("hello", adapter="fake")).content == CLEAN
    assert await parley.platform.wait_for(1) == [CLEAN]


GARBLED = {
    "values": json.dumps({"content": GARBAGE}),
    "keys": json.dumps({GARBAGE: 1}),
    "raw-nul": f'{{"content": "{NUL}"}}',
    "cut": '{"content": "half a str',
    "null": "null",
    "infinite": '{"content": 1e999}',
    "prose": "not json at all",
    "nothing": "",
}


async def test_a_call_with_garbled_arguments_gets_a_result_and_the_turn_goes_on(
    parley: Parley, subtests: pytest.Subtests
) -> None:
    for name, arguments in GARBLED.items():
        with subtests.test(name):
            parley.model.play([Answer(tool_calls=[("knowledge__remember", arguments)]), Answer("So be it.")])

            reply = await parley.ask("hello", user=name)

            assert reply.content == "So be it."
            assert [call.tool for call in reply.tool_calls_made] == ["knowledge.remember"]
            assert reply.tool_calls_made[0].result is not None
            assert parley.model.refusals == []


@pytest.mark.parametrize("arguments", ["[" * 100_000, '{"content": ' + "9" * 5000 + "}"], ids=["deep", "huge-number"])
async def test_arguments_that_no_parser_accepts_do_not_end_the_turn(parley: Parley, arguments: str) -> None:
    parley.model.play([Answer("Hi."), Answer(tool_calls=[("knowledge__remember", arguments)]), Answer("So be it.")])
    await parley.ask("hello")
    # Such arguments are paid for as well, and are more than a guest may spend.
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")

    assert (await parley.ask("hello")).content == "So be it."


async def test_a_garbled_tool_name_is_an_error_that_lists_the_tools(parley: Parley) -> None:
    parley.model.play([Answer(tool_calls=[("no-such" * 9, {})]), Answer("So be it.")])

    reply = await parley.ask("hello")

    assert reply.content == "So be it."
    assert reply.tool_calls_made[0].result["error"] is True


async def babble(context: ToolContext) -> object:
    """Return garbage."""
    return {GARBAGE: GARBAGE, "nan": float("nan"), "bytes": b"\xff\x00", "object": context.clock, "long": "x" * 50_000}


async def test_the_result_of_a_tool_is_cleaned_and_cut(settings: Settings, address: Address, model: OpenAIStub) -> None:
    wide = settings.model_copy(update={"default_guest_modules": ("odd",), "default_guest_token_budget": 10**9})
    modules = ModuleTools([Tool(babble, Permission.GUEST, module="odd")])
    model.play([Answer(tool_calls=[("odd__babble", {})]), Answer("So be it.")])

    async with open_parley_with(wide, address, model, modules=modules) as parley:
        reply = await parley.ask("hello")

    assert reply.content == "So be it."
    assert len(json.dumps(reply.tool_calls_made[0].result)) < 20_000
    assert model.refusals == []


async def test_names_of_ten_thousand_characters_are_accepted(parley: Parley) -> None:
    name = "N" * 10_000

    reply = await parley.ask(
        "hello", user=name, username=name, server="s", channel=name, thread=name, event_id="e" * 10_000
    )

    assert reply.error is None
    assert (await parley.ask("again", user=name, username=name, server="s", channel=name, thread=name)).error is None
    assert await parley.value("SELECT count(*) FROM conversations") == 1
    assert len(last_user_text(parley.model.requests[0].body)) < 1000
