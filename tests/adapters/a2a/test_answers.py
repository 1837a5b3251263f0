"""Peers are answered, streamed or in one piece, in both generations of the protocol."""

import asyncio
import json

import pytest
from a2a.types.a2a_pb2 import Part
from a2a.utils.errors import A2AError
from google.protobuf.struct_pb2 import Value

from tests.adapters.a2a.callers import (
    ANN,
    Heard,
    Peer,
    call,
    connected,
    ended,
    message,
    state,
    text_of,
)
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer, Fault
from tests.standins.openai_api.script import Body
from tests.support.leaks import READ_BOTH, check, leak
from tests.support.office import Office


async def says_once_followed(peer: Peer, site: Site, answer: Answer) -> Heard:
    """Ask a model that answers only when the peer has heard that it is at work."""
    heard, is_followed = Heard([]), asyncio.Event()

    async def answer_once_followed(_body: Body, _number: int) -> Answer:
        await is_followed.wait()
        return answer

    site.parley.model.play(answer_once_followed)
    async for update in peer.stream("hello"):
        heard.updates.append(update)
        if update.HasField("status_update"):
            is_followed.set()
    return heard


async def test_a_peer_is_answered_while_it_listens(peer: Peer, site: Site) -> None:
    heard = await says_once_followed(peer, site, Answer("You said: hello"))

    assert heard.answer == "You said: hello"
    assert heard.states[-2:] == ["working", "completed"]
    assert heard.updates[-2].artifact_update.last_chunk


async def test_a_peer_that_waits_gets_the_whole_task(poller: Peer, site: Site) -> None:
    heard = await poller.says("hello")

    task = heard.last
    assert heard.states == ["completed"]
    assert heard.answer == "You said: hello"
    assert [text_of(message.parts) for message in task.history] == ["hello"]
    assert task.metadata["parley/finished"] is True
    assert task.metadata["parley/usage"]["input_tokens"] > 0
    assert await site.parley.value("SELECT adapter FROM outbox WHERE status = 'delivered'") == "a2a"


async def test_the_answer_is_streamed_to_the_peer(peer: Peer, site: Site) -> None:
    words = " ".join(f"word{number} né 🦜" for number in range(60))

    heard = await says_once_followed(peer, site, Answer(words, chunk_delay=0.02))

    assert len(heard.pieces) > 3
    assert "".join(heard.pieces) == heard.answer == words
    appended = [update.artifact_update.append for update in heard.updates if update.HasField("artifact_update")]
    assert appended == [False, *[True] * (len(appended) - 1)]


async def test_nothing_leaves_for_a_peer_that_a_model_made_up_hid_or_left_open(newer: Peer, site: Site) -> None:
    app = site.parley.app
    app.tools.mcp.offer(Office().tools())
    await site.parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('p', 'Go.', true)")
    site.parley.model.play([*READ_BOTH, leak(app.secrets.secret_keys[0])])

    heard = await newer.says("go on", metadata={"parley/person": ANN})

    for text in (heard.answer, "".join(heard.pieces)):
        check(text, app.secrets.secret_keys[0])


async def test_a_thousand_chunks_arrive_whole(newer: Peer, site: Site) -> None:
    words = "".join(f"{number:04} " for number in range(1000)).strip()
    site.parley.model.play([Answer(words, chunk_chars=5)])

    assert (await newer.says("count")).answer == words


async def test_text_before_a_tool_call_is_replaced_by_the_answer(peer: Peer, site: Site) -> None:
    site.parley.model.play([
        Answer("Let me look.", tool_calls=[("calculator__calculate", {"expression": "2+2"})], chunk_delay=0.1),
        Answer("It is 4.", chunk_delay=0.1),
    ])  # fmt: skip

    heard = await peer.says("what is 2+2?")

    assert heard.answer == "It is 4."
    assert "Let me look." in "".join(heard.pieces)


async def test_a_peer_may_poll_for_the_answer(poller: Peer, site: Site) -> None:
    is_heard = asyncio.Event()

    async def answers_later(_body: Body, _number: int) -> Answer:
        await is_heard.wait()
        return Answer("You said: hello")

    site.parley.model.play(answers_later)
    heard = await poller.says("hello", at_once=True)
    is_heard.set()

    assert heard.states[0] in ("submitted", "working")
    task = await ended(poller, heard.task_id)
    assert state(task) == "completed"
    assert text_of(task.artifacts[0].parts) == "You said: hello"


async def test_the_same_message_twice_gives_the_first_answer_again(newer: Peer, site: Site) -> None:
    first = await newer.says("hello", message_id="m-1")
    again = await newer.says("something else", message_id="m-1")
    async with connected(site, "0.3", streams=False) as older:
        later = await older.says("again something else", message_id="m-1", context_id=first.context_id)

    assert first.answer == again.answer == later.answer == "You said: hello"
    assert first.task_id == again.task_id == later.task_id
    assert await site.parley.value("SELECT count(*) FROM turns") == 1


async def test_two_copies_at_once_are_one_turn(newer: Peer, site: Site) -> None:
    heard = await asyncio.gather(*(newer.says("hello", message_id="m-1") for _ in range(5)))

    assert {reply.answer for reply in heard} == {"You said: hello"}
    assert await site.parley.value("SELECT count(*) FROM turns") == 1


async def test_an_id_that_is_another_persons_is_refused(newer: Peer) -> None:
    await newer.says("hello", message_id="m-1", metadata={"parley/person": ANN})

    with pytest.raises(A2AError, match="from somebody else"):
        await newer.says("hello", message_id="m-1", metadata={"parley/person": {**ANN, "platform_user_id": "bob"}})


async def test_messages_of_a_context_are_one_conversation(newer: Peer, site: Site) -> None:
    first = await newer.says("my name is Ann")
    await newer.says("what is my name?", context_id=first.context_id)
    apart = await newer.says("what is my name?")

    result = [json.dumps(request.body["messages"]) for request in site.parley.model.requests]
    assert ["my name is Ann" in prompt for prompt in result] == [True, True, False]
    assert apart.context_id != first.context_id
    assert await site.parley.value("SELECT count(*) FROM conversations") == 2


async def test_files_come_with_the_question(peer: Peer, site: Site) -> None:
    data = Value()
    data.struct_value.update({"rows": 2})
    await peer.says(
        "read this",
        Part(raw=b"name,age\nAnn,7\n", filename="people.csv", media_type="text/csv"),
        Part(data=data),
    )

    row = (await site.parley.sql("SELECT filename, mime_type, status, size_bytes FROM file_records"))[0]
    assert tuple(row) == ("people.csv", "text/csv", "stored", 15)
    assert '{"rows": 2.0}' in await site.parley.value("SELECT content FROM inbox")


async def test_files_come_back_with_the_answer_by_signed_link(peer: Peer, poller: Peer, site: Site) -> None:
    document = {"title": "Plan", "content": "# Plan\n\nRest.", "format": "md"}
    site.parley.model.play([Answer(tool_calls=[("file_manager__create_document", document)]), Answer("Here it is.")])

    heard = await peer.says("write a plan", message_id="m-1", metadata={"parley/person": ANN})
    again = await poller.says("write a plan", message_id="m-1", metadata={"parley/person": ANN})

    assert heard.answer == again.answer == "Here it is."
    for parts in (heard.parts, again.parts):
        file = parts[-1]
        assert file.filename == "Plan.md"
        assert file.media_type == "text/markdown"
        path = "/files/" + file.url.partition("/files/")[2]
        assert b"Rest." in (await site.client.get(path)).content


async def test_letters_of_all_kinds_and_halves_of_emoji_pass(peer: Peer) -> None:
    heard = await peer.says("né 漢字 🦜\u0000 \u202e")

    # What turns the direction of a text around is removed from every answer.
    assert heard.answer == "You said: né 漢字 🦜 "


async def test_a_lone_surrogate_is_replaced(site: Site) -> None:
    body = json.dumps(call("message/send", {"message": message("broken \ud83e end")}))
    answer = await site.client.post("/a2a", content=body.encode(), headers={"content-type": "application/json"})

    assert answer.json()["result"]["artifacts"][0]["parts"][0]["text"] == "You said: broken \ufffd end"


async def test_who_has_no_budget_left_is_refused_politely(peer: Peer, site: Site) -> None:
    await peer.says("hello", metadata={"parley/person": ANN})
    await site.parley.sql("UPDATE users SET token_budget_monthly = 1")

    heard = await peer.says("hello", metadata={"parley/person": ANN})

    assert heard.states[-1] == "rejected"
    assert "this month's budget" in text_of(heard.last.status.message.parts)
    assert heard.last.metadata["parley/error"] == "budget_exhausted"


async def test_a_turn_that_fails_says_so_in_one_sentence(peer: Peer, site: Site) -> None:
    site.parley.model.play(lambda _body, _number: Fault(status=400, body={"error": {"message": "secret detail"}}))

    heard = await peer.says("hello")

    assert heard.states[-1] == "failed"
    content = text_of(heard.last.status.message.parts)
    assert "language model" in content
    assert "secret" not in str(heard.updates)
