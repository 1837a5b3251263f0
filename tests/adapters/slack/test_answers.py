"""How an answer looks on Slack: a stream with cards in a thread, edits elsewhere, parts, files; nobody is called."""

from itertools import pairwise

import pytest

from adapters.base import key_of
from agent.queue.outbox import Reply
from shared.db.database import Address
from shared.messages import Place
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import Json, Sent, pings

DELIVERED = "SELECT status FROM outbox ORDER BY id DESC LIMIT 1"


def pieces(call: Sent) -> str:
    return "".join(chunk["text"] for chunk in call.args.get("chunks", ()) if chunk["type"] == "markdown_text")


async def test_a_quick_answer_is_one_call_that_unfurls_nothing(office: Scene) -> None:
    office.model.play([Answer("Quick."), Answer("See https://example.com")])
    await office.ann.direct("warm up")
    await office.ann.hears()
    office.slack.journal.clear()

    await office.ann.direct("hello")
    await office.ann.hears(count=2)
    await office.until_value("delivered", DELIVERED)

    (call,) = office.slack.calls()
    assert call.method == "chat.postMessage"
    assert call.args["unfurl_links"] is call.args["unfurl_media"] is False
    assert call.args["metadata"]["event_type"] == "parley_reply"


async def test_in_a_thread_a_slow_answer_is_streamed_and_ends_as_one_message(office: Scene) -> None:
    text = " ".join(f"word{number}" for number in range(40))
    office.model.play([Answer(text, chunk_chars=8, chunk_delay=0.1)])

    question = await office.ann.mentions(office.general, "slowly")
    await office.until_value("delivered", DELIVERED)

    assert office.ann.reads(office.general, question["ts"]) == [text]
    (start,) = office.slack.calls("chat.startStream")
    assert (start.args["recipient_user_id"], start.args["recipient_team_id"]) == (office.ann.id, office.slack.team_id)
    appends, (stop,) = office.slack.calls("chat.appendStream"), office.slack.calls("chat.stopStream")
    assert appends
    assert all(later.at - earlier.at >= 0.95 for earlier, later in pairwise([start, *appends]))
    assert "".join(pieces(append) for append in (start, *appends, stop)) == text
    place = Place("slack", office.slack.team_id, office.general["id"], thread=question["ts"])
    turn_id = await office.value("SELECT id FROM turns")
    reply = Reply(1, turn_id, "slack", place=place, reply_to=question["ts"], content="", files=())
    assert stop.args["metadata"]["event_payload"] == {"key": key_of(office.parley.app.secrets, reply), "part": 0}
    assert office.slack.calls("chat.update") == office.slack.calls("chat.postMessage") == []
    assert office.slack.world.messages[office.general["id"]][str(start.answer["ts"])]["metadata"]
    assert office.refusals() == []


async def test_tools_are_cards_that_stay_with_the_answer(office: Scene) -> None:
    calls = [("calculator__calculate", {"expression": "2+2"}), ("calculator__calculate", {"expression": "1/0"})]
    office.model.play([Answer("Let me see.", tool_calls=calls, delay=1.5), Answer("It is 4, I think.", delay=1.5)])

    await office.ann.mentions(office.general, "how much is 2+2?")
    await office.until_value("delivered", DELIVERED)

    (answer,) = office.ann.written(office.general)
    cards = [block for block in answer["blocks"] if block["type"] == "task_card"]
    assert [(card["title"], card["status"]) for card in cards] == [
        ("calculator.calculate", "complete"),
        ("calculator.calculate", "error"),
    ]
    # What it said on the way is not part of the answer.
    assert [block["text"] for block in answer["blocks"] if block["type"] == "markdown"] == ["It is 4, I think."]
    thread = next(iter(office.slack.world.assistant_threads.values()))
    assert thread["statuses"][0] == "is thinking …"
    assert office.refusals() == []


async def test_tools_that_end_while_slack_answers_leave_no_card_in_progress(office: Scene) -> None:
    calls = [("calculator__calculate", {"expression": "2+2"}), ("calculator__calculate", {"expression": "1/0"})]
    again = [("calculator__calculate", {"expression": "3+3"})]
    office.model.play(
        [
            Answer("Let me see.", delay=0.7, chunk_chars=3, chunk_delay=0.1, tool_calls=calls),
            Answer("Once more.", chunk_chars=3, chunk_delay=0.1, tool_calls=again),
            Answer("It is 4, I think.", chunk_chars=3, chunk_delay=0.1),
        ]
    )
    office.slack.latency = 0.7

    await office.ann.mentions(office.general, "how much is 2+2?")
    await office.until_value("delivered", DELIVERED)

    (answer,) = office.ann.written(office.general)
    cards = [block["status"] for block in answer["blocks"] if block["type"] == "task_card"]
    assert cards == ["complete", "error", "complete"]
    assert office.ann.reads(office.general)[0].endswith("It is 4, I think.")


@pytest.mark.parametrize("fault", [{"error": "brand_new_code"}, {"error": "feature_not_enabled"}, {"retry_after": 60}])
async def test_a_stream_that_slack_refuses_becomes_a_message_that_is_edited(office: Scene, fault: Json) -> None:
    text = " ".join(f"word{number}" for number in range(30))
    office.model.play([Answer(text, chunk_chars=8, chunk_delay=0.15)])
    office.slack.fail("chat.startStream", **fault)

    await office.ann.mentions(office.general, "slowly")
    await office.until_value("delivered", DELIVERED)

    (start,), (post,) = office.slack.calls("chat.startStream"), office.slack.calls("chat.postMessage")
    assert post.at - start.at < 1
    assert len(office.slack.calls("chat.update")) >= 2
    assert office.ann.reads(office.general) == [text]


async def test_an_addition_whose_confirmation_is_lost_is_not_repeated_in_the_answer(office: Scene) -> None:
    text = " ".join(f"word{number}" for number in range(40))
    office.model.play([Answer(text, chunk_chars=8, chunk_delay=0.1)])
    office.slack.fail("chat.appendStream", is_lost=True)

    await office.ann.mentions(office.general, "slowly")
    await office.until_value("delivered", DELIVERED)

    assert office.ann.reads(office.general) == [text]


async def test_an_answer_arrives_also_where_slack_refuses_to_end_its_stream_or_to_change_it(office: Scene) -> None:
    office.model.play([Answer("Slowly but surely.", chunk_chars=4, chunk_delay=0.4)] * 2)
    office.slack.fail("chat.stopStream", error="brand_new_code", times=9)
    office.slack.fail("chat.update", error="edit_window_closed", times=99, only={"channel": office.ann.dm["id"]})

    await office.ann.mentions(office.general, "slowly")
    await office.ann.direct("slowly")
    await office.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

    assert office.slack.calls("chat.startStream", ok=True)
    assert office.ann.reads(office.general) == office.ann.reads() == ["Slowly but surely."]


async def test_where_nothing_is_streamed_the_message_is_edited_once_a_second(office: Scene) -> None:
    text = " ".join(f"word{number}" for number in range(40))
    office.model.play([Answer(text, chunk_chars=8, chunk_delay=0.1)] * 2)
    office.slack.fail("chat.startStream", error="unknown_method")

    await office.ann.direct("slowly")
    await office.until_value("delivered", DELIVERED)

    assert office.ann.reads() == [text]
    (post,), edits = office.slack.calls("chat.postMessage"), office.slack.calls("chat.update")
    assert len(edits) >= 2
    assert all(later.at - earlier.at >= 0.95 for earlier, later in pairwise([post, *edits]))
    assert all(text.startswith(edit.args["blocks"][0]["text"]) for edit in (post, *edits))


async def test_a_workspace_without_streams_is_asked_once_and_answered_all_the_same(office: Scene) -> None:
    office.model.play([Answer("One.", delay=1.5), Answer("Two.", delay=1.5)])
    office.slack.fail("chat.startStream", error="unknown_method", times=5)

    for count in (1, 2):
        await office.ann.mentions(office.general, "slowly")
        await office.ann.hears(office.general, count)

    assert office.ann.reads(office.general) == ["One.", "Two."]
    assert len(office.slack.calls("chat.startStream")) <= 1


async def test_the_stream_of_a_worker_that_died_is_ended_with_the_answer(office: Scene) -> None:
    office.model.play([Answer("The end.", delay=2.5)])
    question = await office.ann.mentions(office.general, "hello")
    await office.slack.until(lambda: office.slack.calls("assistant.threads.setStatus"))
    # What the attempt before has left: a stream that is open, and its id with the turn.
    state = {"is_streaming": True, "tasks": {}, "stream": {"mode": "timeline", "began": 1e12, "pieces": []}}
    bot = {"user": office.slack.bot_user_id, "bot_id": office.slack.installation.bot_id}
    orphan = office.slack.world.keep_message(office.general, "The", thread_ts=question["ts"], **state, **bot)
    await office.sql("UPDATE turns SET live_message_id = :ts", ts=orphan["ts"])

    await office.until_value("delivered", DELIVERED)

    assert office.ann.reads(office.general, question["ts"]) == ["The end."]
    assert (
        len([message for message in office.slack.world.messages[office.general["id"]].values() if "bot_id" in message])
        == 1
    )


async def test_a_text_that_slack_finds_too_long_becomes_a_file(office: Scene) -> None:
    office.model.play([Answer("Not that long.")])
    office.slack.fail("chat.postMessage", error="msg_too_long")

    await office.ann.direct("hello")
    await office.until_value("delivered", DELIVERED)

    assert [file["name"] for file in office.ann.written()[1]["files"]] == ["answer.md"]


async def test_nobody_is_mentioned_unless_the_persona_allows_it_and_never_everyone(office: Scene) -> None:
    answer = f"<!channel> <!here|here> <!everyone> <!subteam^S1> <@{office.bob.id}> a < b && c <#C1>"
    office.model.play([Answer(answer), Answer(answer), Answer(answer, chunk_chars=1, chunk_delay=0.02)])

    await office.ann.direct("call everybody")
    await office.ann.hears()
    await office.sql(
        "INSERT INTO personas (name, system_prompt, platform, allow_mentions) VALUES ('p', 's', 'slack', true)"
    )
    await office.ann.direct("again")
    await office.ann.hears(count=2)
    await office.sql("DELETE FROM personas USING set_config('parley.delete_history', 'yes', true)")
    await office.ann.mentions(office.general, "in a stream")
    await office.ann.hears(office.general)

    assert [pings(message) for message in office.ann.written()] == [[], [office.bob.id]]
    assert office.slack.calls("chat.startStream")
    assert [pings(message) for message in office.ann.written(office.general)] == [[]]
    assert "a < b && c" in office.ann.reads()[0]
    assert "a &lt; b &amp;&amp; c" in office.ann.written()[0]["text"]


async def test_tables_are_kept_and_old_clients_read_them_as_text(office: Scene) -> None:
    office.model.play(
        [Answer("# Bikes\n\n| Bike | Legs |\n|---|:-:|\n| **Grass bike** | 4 |\n\nSee [more](https://x.y).")]
    )

    await office.ann.direct("a table")
    await office.ann.hears()

    (answer,) = office.ann.written()
    assert "| **Grass bike** | 4 |" in answer["blocks"][0]["text"]
    assert answer["text"] == answer["blocks"][0]["text"]


async def test_where_files_are_refused_there_is_a_link(office: Scene) -> None:
    arguments = {"title": "Bikes", "content": "Green.", "format": "md"}
    office.model.play([Answer(tool_calls=[("file_manager__create_document", arguments)]), Answer("Here it is.")])
    office.slack.fail("files.getUploadURLExternal", error="file_uploads_disabled")

    await office.ann.direct("write it down")
    await office.until_value("delivered", DELIVERED)

    (answer,) = office.ann.reads()
    assert answer.startswith("Here it is.")
    assert "/files/" in answer


async def test_a_live_message_that_somebody_deletes_does_not_take_the_answer_along(office: Scene) -> None:
    office.model.play([Answer("One two three four five six.", chunk_chars=4, chunk_delay=0.4)])

    await office.ann.direct("count")
    (live,) = await office.slack.until(office.ann.written)
    del office.slack.world.messages[office.ann.dm["id"]][live["ts"]]
    await office.until_value("delivered", DELIVERED)

    assert office.ann.reads() == ["One two three four five six."]


async def test_a_worker_alone_sends_what_another_process_has_taken(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("From the worker.")])
    async with scene.opened(address, model, works=False):
        await scene.ann.direct("hello")
        await scene.until_value(1, "SELECT count(*) FROM inbox")
    async with scene.opened(address, model, listens=False):
        assert await scene.ann.hears() == ["From the worker."]
