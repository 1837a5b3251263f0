"""The product's stories: a message in, a reply out."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from shared.messages import Attachment
from tests.standins.openai_api import Answer, Fault
from tests.standins.openai_api.script import ScriptedCall
from tests.support.parley import Parley


def request_of(parley: Parley, number: int = -1) -> dict[str, Any]:
    """Return the model's request with this number."""
    body: dict[str, Any] = parley.model.requests[number].body
    return body


async def test_a_message_is_answered_and_everything_is_kept(parley: Parley) -> None:
    parley.model.play([Answer("Hi Ann.")])

    reply = await parley.ask("hello")

    assert reply.content == "Hi Ann."
    assert (reply.finished, reply.iterations, reply.error, reply.model) == (True, 1, None, "openai/stub")
    rows = await parley.sql("SELECT role, content FROM messages ORDER BY turn_id, seq")
    assert [tuple(row) for row in rows] == [("user", "hello"), ("assistant", "Hi Ann.")]
    ledger = await parley.sql("SELECT purpose, model, input_tokens + output_tokens FROM token_logs")
    assert [tuple(row) for row in ledger] == [("answer", "openai/stub", reply.usage.total)]
    balances = await parley.sql("SELECT tokens_used_this_month, tokens_reserved FROM users")
    assert balances == [(reply.usage.total, 0)]
    assert await parley.value("SELECT count(*) FROM budget_reservations") == 0
    assert await parley.sql("SELECT inbox.status, outbox.status FROM inbox, outbox") == [("answered", "delivered")]


async def test_a_second_copy_of_an_event_gives_one_turn_and_the_first_answer_again(parley: Parley) -> None:
    parley.model.play([Answer("once"), Answer("twice")])

    first = await parley.ask("hello", event_id="42")
    second = await parley.ask("hello", event_id="42")

    assert first == second
    assert await parley.value("SELECT count(*) FROM turns") == 1


async def test_the_response_handed_over_in_memory_equals_the_stored_one(parley: Parley) -> None:
    persona = "INSERT INTO personas (name, system_prompt, default_model, is_default) VALUES ('p', 'p', :model, true)"
    await parley.sql(persona, model="openai/gpt-4o-mini")
    calls: list[ScriptedCall] = [("file_manager__list_files", {}), ("file_manager__read_document", {"file_id": 7})]
    document = ("file_manager__create_document", {"title": "Plan", "content": "First we eat.", "format": "md"})
    parley.model.play([Answer("Let me see.", tool_calls=calls), Answer(tool_calls=[document]), Answer("Here it is.")])

    first = await parley.ask("make me a plan", event_id="42")
    again = await parley.ask("make me a plan", event_id="42")

    assert first.usage.cost is not None
    assert (len(first.tool_calls_made), len(first.files)) == (3, 1)
    assert replace(again, files=()) == replace(first, files=())


async def test_tools_of_one_answer_run_as_one_wave_and_results_keep_the_models_order(parley: Parley) -> None:
    parley.model.play(
        [
            Answer(
                "Let me see.",
                tool_calls=[
                    ("knowledge__remember", {"content": "Ann likes tea"}),
                    ("file_manager__list_files", {}),
                    ("knowledge__list_memories", {}),
                ],
            ),
            Answer("Noted."),
        ]
    )

    reply = await parley.ask("remember that I like tea")

    assert reply.content == "Noted."
    assert reply.iterations == 2
    assert [call.tool for call in reply.tool_calls_made] == [
        "knowledge.remember",
        "file_manager.list_files",
        "knowledge.list_memories",
    ]
    roles = [row.role for row in await parley.sql("SELECT role FROM messages ORDER BY seq")]
    assert roles == ["user", "assistant", *["tool_call"] * 3, *["tool_result"] * 3, "assistant"]
    names = [
        row.tool_name for row in await parley.sql("SELECT tool_name FROM messages WHERE tool_name <> '' ORDER BY seq")
    ]
    assert names[:3] == names[3:]
    speakers = [message["role"] for message in request_of(parley)["messages"]]
    assert speakers == ["system", "user", "assistant", "tool", "tool", "tool"]


async def test_a_person_is_remembered_in_the_next_conversation(parley: Parley) -> None:
    parley.model.play(
        [
            Answer(tool_calls=[("knowledge__remember", {"content": "Ann's dog is called Rex"})]),
            Answer("I will."),
            Answer("Rex."),
        ]
    )
    await parley.ask("remember: my dog is called Rex")

    await parley.ask("what is my dog called?", channel="another-dm")

    assert "Ann's dog is called Rex" in request_of(parley)["messages"][-1]["content"]


async def test_a_private_memory_never_reaches_a_prompt_in_a_channel(parley: Parley) -> None:
    parley.model.play(
        [
            Answer(tool_calls=[("knowledge__remember", {"content": "Ann is looking for a new job"})]),
            Answer("I will."),
            Answer("No idea."),
        ]
    )
    await parley.ask("remember that I am looking for a new job")

    await parley.ask("what job am I looking for?", server="acme")

    assert "new job" not in request_of(parley)["messages"][-1]["content"].partition("<context>")[2]


async def test_speakers_are_named_in_shared_channels_and_each_pays_for_their_own_turn(parley: Parley) -> None:
    parley.model.play([Answer("Hi Ann."), Answer("Hi Bob.")])

    await parley.ask("I am here", user="ann", server="acme")
    await parley.ask("me too", user="bob", server="acme", username="Bob: root")

    contents = [
        message["content"].partition("\n")[0] for message in request_of(parley)["messages"] if message["role"] == "user"
    ]
    assert contents == ["Ann: I am here", "Bob root: me too"]
    payers = await parley.sql("SELECT count(DISTINCT user_id) FROM token_logs")
    assert payers[0][0] == 2


async def test_another_person_in_a_direct_place_sees_nothing_of_the_first(parley: Parley) -> None:
    parley.model.play([Answer("ok"), Answer("ok")])

    await parley.ask("my secret is 1234", user="ann", channel="dm")
    await parley.ask("hello", user="eve", channel="dm")

    assert "1234" not in json.dumps(request_of(parley)["messages"])


async def test_an_exhausted_budget_is_refused_without_a_model_call(parley: Parley) -> None:
    parley.model.play([Answer("ok")])
    await parley.ask("hello")
    await parley.sql("UPDATE users SET tokens_used_this_month = token_budget_monthly")

    reply = await parley.ask("hello again")

    assert reply.error == "budget_exhausted"
    assert reply.content.startswith("You have used this month's budget; it renews on ")
    assert len(parley.model.requests) == 1


async def test_a_budget_that_ends_in_mid_turn_keeps_what_was_done(parley: Parley) -> None:
    await parley.ask("hello")
    await parley.sql("UPDATE users SET token_budget_monthly = tokens_used_this_month + 1")
    parley.model.play([Answer("First I look.", tool_calls=[("file_manager__list_files", {})]), Answer("never said")])

    reply = await parley.ask("list my files")

    assert not reply.finished
    assert reply.error == "budget_exhausted"
    assert reply.content.startswith("First I look.")
    assert "renews on" in reply.content
    assert [call.tool for call in reply.tool_calls_made] == ["file_manager.list_files"]


async def test_a_new_period_begins_when_the_old_one_has_ended(parley: Parley) -> None:
    await parley.ask("hello")
    await parley.sql("UPDATE users SET tokens_used_this_month = 99999, budget_reset_at = now() - interval '65 days'")

    reply = await parley.ask("hello again")

    assert reply.error is None
    row = (await parley.sql("SELECT tokens_used_this_month AS used, budget_reset_at - now() AS rest FROM users"))[0]
    assert row.used == reply.usage.total
    assert 24 <= row.rest.days <= 25


async def test_a_model_that_never_ends_is_stopped_at_the_limit_with_a_last_answer(parley: Parley) -> None:
    def never_ends(body: dict[str, Any], _number: int) -> Answer:
        return Answer(tool_calls=[("file_manager__list_files", {})]) if body.get("tools") else Answer("All I know.")

    parley.model.play(never_ends)
    await parley.ask("hello")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")

    reply = await parley.ask("go on for ever")

    assert reply.content == "Reached maximum reasoning steps (10)\n\nAll I know."
    assert (reply.finished, reply.iterations) == (False, 11)
    assert not request_of(parley).get("tools")


async def test_an_answer_cut_at_the_length_limit_says_so(parley: Parley) -> None:
    parley.model.play([Answer("Once upon a", finish_reason="length")])

    reply = await parley.ask("tell me a story")

    assert reply.content.startswith("Once upon a")
    assert ("cut" in reply.content, reply.finished) == (True, False)


async def test_without_a_reachable_model_the_reply_is_one_sentence(parley: Parley) -> None:
    parley.model.play(lambda _body, _number: Fault(401, body={"error": {"message": "secret detail sk-abc"}}))

    reply = await parley.ask("hello")

    assert (reply.error, "model" in reply.content) == ("models_unavailable", True)
    assert await parley.sql("SELECT status, tokens_reserved FROM turns, users") == [("failed", 0)]
    await parley.sql("UPDATE users SET permission_level = 'admin'")
    response = await parley.ask("hello again")
    assert "is refused (401 or 403). Correct its API key" in response.content
    assert "is refused (401 or 403)" in await parley.value("SELECT cause FROM turns ORDER BY id DESC LIMIT 1")
    assert "secret" not in response.content + reply.content
    assert "key" not in reply.content


async def test_broken_arguments_are_an_error_the_model_can_read(parley: Parley, subtests: pytest.Subtests) -> None:
    for arguments in ("{", "[]", '{"content": 5}', '{"content": "x", "user_id": 7}', '"text"'):
        with subtests.test(arguments):
            parley.model.play([Answer(tool_calls=[("knowledge__remember", arguments)]), Answer("Sorry.")])

            reply = await parley.ask("remember something", user=f"user {arguments}")

            result = reply.tool_calls_made[0].result
            assert result["error"] is True
            assert "content" in result["parameters"]["properties"]
    assert await parley.value("SELECT count(*) FROM memories") == 0


async def test_an_attached_file_is_recorded_stored_and_readable_before_tools_run(parley: Parley) -> None:
    key = "inbox/abc/notes.txt"
    await parley.app.files.storage.put(key, b"the code word is wagon", "text/plain")

    def reads(body: dict[str, Any], _number: int) -> Answer:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return Answer(f"It says: {json.loads(last['content'])}")
        file_id = int(last["content"].partition("file_id ")[2].partition(",")[0])
        return Answer(tool_calls=[("file_manager__read_document", {"file_id": file_id})])

    parley.model.play(reads)
    attachment = Attachment("notes.txt", "text/plain", 22, storage_key=key)

    reply = await parley.ask("what does it say?", attachments=[attachment])

    assert "wagon" in reply.content
    content = await parley.value("SELECT content FROM messages WHERE role = 'user'")
    assert "[Attached files:]" in content
    assert "notes.txt (file_id 1, 22 bytes, text/plain)" in content
    assert await parley.value("SELECT status FROM file_records") == "stored"


async def test_a_file_that_a_tool_makes_comes_back_with_the_reply(parley: Parley) -> None:
    document = {"title": "Plan", "content": "# Plan\nStep one", "format": "md"}
    parley.model.play([Answer(tool_calls=[("file_manager__create_document", document)]), Answer("Here it is.")])

    reply = await parley.ask("write a plan")

    assert [file.mime_type for file in reply.files] == ["text/markdown"]
    assert reply.files[0].url.startswith("http://127.0.0.1:8080/files/")


async def test_a_push_platform_gets_its_reply_once_and_it_is_marked_delivered(parley: Parley) -> None:
    parley.model.play([Answer("posted")])

    await parley.accept("hello", adapter="fake")

    assert await parley.platform.wait_for(1) == ["posted"]
    assert parley.platform.posts[0].place.channel == "dm-ann"


async def test_history_is_shown_in_order_and_the_prompt_begins_with_the_same_bytes(parley: Parley) -> None:
    for number in range(4):
        await parley.ask(f"message {number}")

    bodies = [json.dumps(request.body["messages"][:-1]) for request in parley.model.requests]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier[:-1])


async def test_a_streaming_turn_sends_its_events_in_order(parley: Parley) -> None:
    parley.model.play(
        [
            Answer("Looking.", tool_calls=[("file_manager__list_files", {})]),
            Answer("You have no files at all."),
        ]
    )

    events = await parley.follow("list my files")

    names = [event.name for event in events if event.name != "text_delta"]
    assert names == ["user_message", "turn_started", "tool_call", "tool_result", "message", "turn_complete"]
    streamed = "".join(event.payload["text"] for event in events if event.name == "text_delta")
    assert streamed == "Looking.You have no files at all."
    assert [event.seq for event in events] == sorted(event.seq for event in events)


async def test_a_rejected_answer_is_paid_for_too(parley: Parley) -> None:
    parley.model.play([Answer("", usage={"prompt_tokens": 700, "completion_tokens": 0}), Answer("Here I am.")])

    reply = await parley.ask("hello")

    assert reply.content == "Here I am."
    ledger = [row.total for row in await parley.sql("SELECT input_tokens + output_tokens AS total FROM token_logs")]
    assert len(ledger) == 2
    assert sum(ledger) == reply.usage.total == await parley.value("SELECT tokens_used_this_month FROM users")


async def test_a_tool_that_fails_three_times_in_the_same_way_ends_the_turn(parley: Parley) -> None:
    parley.model.play(lambda _body, _number: Answer("Hm.", tool_calls=[("knowledge__forget", {"memory_id": 9})]))

    reply = await parley.ask("forget everything")

    assert (reply.error, reply.finished, reply.iterations) == ("circuit_breaker", False, 3)
    assert "knowledge.forget failed three times in a row; the last time it said: There is no memory" in reply.content


async def test_three_different_wrong_names_are_three_tries_and_the_turn_goes_on(parley: Parley) -> None:
    calls = [Answer(tool_calls=[("knowledge__forget", {"memory_id": number})]) for number in (7, 8, 9)]
    parley.model.play([*calls, Answer("You have no such memories.")])

    reply = await parley.ask("forget everything")

    assert (reply.error, reply.content, reply.iterations) == (None, "You have no such memories.", 4)


async def test_a_call_that_failed_is_not_run_again_with_the_same_arguments(parley: Parley) -> None:
    parley.model.play(
        [
            Answer(tool_calls=[("file_manager__read_document", {"file_id": 9})]),
            Answer(tool_calls=[("file_manager__read_document", {"file_id": 9})]),
            Answer("There is no such file."),
        ]
    )

    reply = await parley.ask("read file 9")

    first, second = (call.result for call in reply.tool_calls_made)
    assert second == {**first, "hint": second["hint"]}
    assert "not run again" in second["hint"]


async def test_near_the_limit_the_model_is_told_how_many_steps_are_left(parley: Parley) -> None:
    parley.model.play(
        lambda body, _number: (
            Answer(tool_calls=[("file_manager__list_files", {})]) if body.get("tools") else Answer("Done.")
        )
    )
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, max_iterations, is_default, allowed_modules)"
        """ VALUES ('p', 'Be.', 3, true, '["file_manager"]')"""
    )

    await parley.ask("go on")

    notes = [request.body["messages"][-1]["content"] for request in list(parley.model.requests)[1:]]
    assert notes[0] == "(Steps with tools that are left: 2.)"
    assert notes[1] == "(Steps with tools that are left: 1.)"
    assert notes[2].startswith("You have used all your steps.")


async def test_the_result_of_a_tool_that_ends_the_turn_is_the_answer(parley: Parley) -> None:
    question = {"question": "Which one?", "options": ["tea", "coffee"]}
    parley.model.play([Answer("", tool_calls=[("dialogue__ask_question", question)]), Answer("never asked")])
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('asks', 'Ask.', true)")

    reply = await parley.ask("bring me a drink", adapter="http")

    assert reply.content == "Which one?\n\n1. tea\n2. coffee"
    assert (reply.finished, reply.iterations) == (True, 1)
    assert await parley.value("SELECT choices FROM outbox") == ["tea", "coffee"]
    assert await parley.value("SELECT tokens_reserved FROM users") == 0


async def test_the_chosen_answer_is_the_next_message(parley: Parley) -> None:
    question = {"question": "Which one?", "options": ["tea", "coffee"]}
    parley.model.play([Answer("", tool_calls=[("dialogue__ask_question", question)]), Answer("Tea it is.")])
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('asks', 'Ask.', true)")
    await parley.ask("bring me a drink")

    reply = await parley.ask("tea")

    assert reply.content == "Tea it is."
    roles = [message["role"] for message in request_of(parley)["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
