"""The homeserver away or refusing, and the agent away."""

import time
from itertools import count, cycle
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters.chat.posting import NOT_TAKEN
from adapters.matrix.client import Client
from shared.db.database import Address
from tests.adapters.matrix.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import gated_answer
from tests.support.homeserver_proxy import HISTORY, SENDING, SILENCE, Fault

WAITING = "SELECT count(*) FROM outbox WHERE status <> 'delivered'"


async def test_after_an_outage_answers_arrive_once_and_what_was_written_meanwhile_is_answered(matrix: Scene) -> None:
    ann, bob, world = matrix.ann, matrix.bob, matrix.world
    hold, script = gated_answer("Made in the outage.")
    matrix.model.play(script)
    await ann.says(matrix.direct, "are you there?")
    await matrix.model.until(1)

    matrix.proxy.go_away()
    hold.set()
    # Longer than a request is repeated.
    await matrix.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    matrix.model.play([Answer("Bob's answer.")])
    await bob.says(world.bobs_direct, "while you were away")
    assert await matrix.value("SELECT count(*) FROM inbox") == 1
    matrix.proxy.is_away = False
    await matrix.sql("UPDATE outbox SET claimed_until = now()")

    await matrix.hears("Made in the outage.")
    await bob.hears(matrix.agent.id, world.bobs_direct, "Bob's answer.")
    await matrix.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    await ann.looks()
    assert ann.texts(matrix.agent.id, matrix.direct) == ["Made in the outage."]


async def test_what_is_said_of_an_encrypted_direct_room_is_not_posted_again_after_an_outage(matrix: Scene) -> None:
    ann, room, cipher = matrix.ann, matrix.direct, {"algorithm": "m.megolm.v1.aes-sha2"}
    matrix.world.is_spoilt = True
    await ann.call("PUT", "rooms", room, "state", "m.room.encryption", "", body=cipher)
    matrix.proxy.faults.append(Fault("PUT", SENDING, 503, times=1000, after=True))
    await ann.sends(room, "m.room.encrypted", cipher | {"ciphertext": "x"})
    await matrix.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    matrix.proxy.faults.clear()
    await matrix.sql("UPDATE outbox SET claimed_until = now()")
    await matrix.until_value("delivered", "SELECT status FROM outbox")

    await ann.looks()
    assert len(ann.texts(matrix.agent.id, room)) == 1


async def test_a_wait_that_the_homeserver_asks_for_is_kept_however_long(matrix: Scene) -> None:
    matrix.model.play([Answer("After the wait.")])
    matrix.proxy.faults.append(Fault("PUT", SENDING, 429, retry_after_ms=120_000))
    await matrix.ann.says(matrix.direct, "hello")

    await matrix.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    assert await matrix.value("SELECT claimed_until > now() + interval '100 seconds' FROM outbox")
    sent = [call for call in matrix.proxy.journal if SENDING in call.path]
    assert [call.status for call in sent] == [429]
    await matrix.sql("UPDATE outbox SET claimed_until = now()")

    await matrix.hears("After the wait.")
    await matrix.until_value(0, WAITING)


async def test_a_request_that_is_met_with_silence_is_made_again(scene: Scene) -> None:
    client = Client(scene.own)
    scene.proxy.faults.append(Fault("GET", "/whoami", SILENCE))

    answer = await client.call("GET", ("account", "whoami"), seconds=2)

    await client.aclose()
    assert answer["user_id"] == scene.agent.id
    assert [call.status for call in scene.proxy.journal] == [SILENCE, 200]


async def test_a_room_that_it_has_joined_just_before_a_new_start_is_known_and_an_invitation_waits(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, agent = scene.bob, scene.agent
    model.play([Answer("Hello."), Answer("Nice to meet you."), Answer("Nice to meet you.")])
    async with scene.opened(address, model):
        joined = await bob.makes_room(agent.id, is_direct=True)
        await bob.says(joined, "hello")
        await bob.hears(agent.id, joined, "Hello.")
        await scene.until_value("delivered", "SELECT status FROM outbox")
    invited = await bob.makes_room(agent.id, is_direct=True)
    await bob.says(invited, "written before it came in")

    # Within the two minutes for which Synapse repeats what it said at the first start.
    async with scene.opened(address, model):
        await bob.says(joined, "no mention is needed here")
        for room in (joined, invited):
            await bob.hears(agent.id, room, "Nice to meet you.")
        assert await scene.sql("SELECT is_direct FROM conversations") == [(True,), (True,)]


async def test_edits_redactions_reactions_and_commands_of_a_downtime_count(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, direct = scene.ann, scene.direct
    model.play([Answer("Of forgs."), Answer("Of bikes.")])
    async with scene.opened(address, model):
        question = await ann.says(direct, "tell me of forgs")
        answer = await scene.hears("Of forgs.")
        secret = await ann.says(direct, "and of a secret")
        await scene.hears("Of bikes.")
        await scene.until_value(2, "SELECT count(*) FROM chat_buttons")
    await ann.reacts(direct, answer, "👍")
    await ann.edits(direct, question, "tell me of frogs")
    await ann.call("PUT", "rooms", direct, "redact", secret, "redacted", body={})
    await ann.says(direct, "/budget")

    async with scene.opened(address, model):
        await ann.sees(lambda: "tokens" in ann.texts(scene.agent.id, direct)[-1])
        contents = await scene.sql("SELECT content FROM inbox ORDER BY id")
        assert contents == [("tell me of frogs",), ("[deleted]",), ("",)]
        assert await scene.value("SELECT score FROM feedback") == 1


async def test_a_file_that_a_proxy_finds_too_large_is_named_and_the_answer_arrives(matrix: Scene) -> None:
    matrix.model.play([Answer("word " * 6000)])
    matrix.proxy.faults.append(Fault("POST", "/upload", 413, is_page=True))

    await matrix.ann.says(matrix.direct, "tell me everything")

    await matrix.hears(f"answer.md: {NOT_TAKEN}")
    await matrix.until_value("delivered", "SELECT status FROM outbox")
    assert matrix.ann.texts(matrix.agent.id, matrix.direct)[0].startswith("word word")


async def test_a_secret_reply_that_arrived_although_a_proxy_said_otherwise_is_followed_by_nothing(
    matrix: Scene,
) -> None:
    away = [Fault("PUT", SENDING, 502, after=number == 0, is_page=True) for number in range(3)]
    matrix.proxy.faults += away
    await matrix.ann.says(matrix.direct, "!login")
    await matrix.until_value(1, "SELECT count(*) FROM outbox")
    await matrix.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")

    await matrix.until_value("delivered", "SELECT status FROM outbox")

    await matrix.ann.looks()
    (shown,) = matrix.ann.texts(matrix.agent.id, matrix.direct)
    assert "This link opens" in shown


async def test_a_page_of_a_proxy_is_an_outage_whatever_its_status(matrix: Scene) -> None:
    matrix.model.play([Answer("Here.")])
    matrix.proxy.faults += [Fault("PUT", SENDING, status, is_page=True) for status in (404, 502)]

    await matrix.ann.says(matrix.direct, "hello")

    await matrix.hears("Here.")
    await matrix.until_value("delivered", "SELECT status FROM outbox")


async def test_what_was_missed_is_read_to_its_beginning_however_much_it_is(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    now = int(time.time() * 1000)
    first, last = [to_event(scene, number, sent_at=now) for number in (0, 7000)]
    old = to_event(scene, -1, sent_at=now - 3_600_000 * int(scene.settings.catch_up_hours + 1))
    between = [to_event(scene, number, sent_at=now) | {"type": "org.example"} for number in range(1, 7000)]
    scene.proxy.missed = [old, first, *between, last]
    async with scene.opened(address, model, works=False):
        await scene.proxy.repeat(to_event(scene, 7001, sent_at=now))
        await scene.until_value(3, "SELECT count(*) FROM inbox")
        stored = await scene.sql("SELECT content FROM inbox ORDER BY id")
    assert stored == [("number 0",), ("number 7000",), ("number 7001",)]


@pytest.mark.parametrize("pages", [["missed-1"], ["missed-8888", "missed-9999"]], ids=["itself", "two in turn"])
async def test_what_was_missed_is_read_to_an_end_from_a_homeserver_whose_last_page_names_another(
    scene: Scene, address: Address, model: OpenAIStub, pages: list[str]
) -> None:
    now = int(time.time() * 1000)
    scene.proxy.missed, scene.proxy.after_last = [to_event(scene, 0, sent_at=now)], cycle(pages)
    async with scene.opened(address, model, works=False):
        await scene.proxy.repeat(to_event(scene, 1, sent_at=now))
        await scene.until_value(2, "SELECT count(*) FROM inbox")


async def test_what_a_homeserver_makes_up_without_end_is_left_out_and_the_log_says_so(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    now = int(time.time() * 1000)
    scene.proxy.missed = [to_event(scene, 0, sent_at=now)]
    scene.proxy.after_last = (f"missed-{number}" for number in count(8888))
    async with scene.opened(address, model, works=False):
        with capture_logs() as logs:
            await scene.proxy.repeat(to_event(scene, 1, sent_at=now))
            await scene.until_value("number 1", "SELECT content FROM inbox")
    (line,) = [line for line in logs if line["event"] == "place_not_read"]
    assert (line["place"], "what comes after 100000 events is left out" in line["cause"]) == (scene.direct, True)


async def test_what_was_missed_is_read_past_a_late_event_that_a_server_orders_before_it(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    # A server says how deep its events are, which is how a room is read: one that was cut off, or one that lies.
    now = int(time.time() * 1000)
    early, *others = [to_event(scene, number, sent_at=now) for number in range(4)]
    since = to_event(scene, 4, sent_at=now)
    scene.proxy.missed = [early, *others]
    async with scene.opened(address, model, works=False):
        await scene.proxy.repeat(others[-1], early)
        await scene.until_value(4, "SELECT count(*) FROM inbox")
        await scene.proxy.repeat(since)
        await scene.until_value(5, "SELECT count(*) FROM inbox")
        stored = await scene.sql("SELECT content FROM inbox ORDER BY id")
    assert stored == [("number 1",), ("number 2",), ("number 3",), ("number 0",), ("number 4",)]


async def test_a_storm_of_refusals_ends_and_nothing_is_lost(matrix: Scene) -> None:
    matrix.model.play([Answer("Calm."), Answer("Still calm.")])
    for method, path in (("PUT", SENDING), ("GET", "/sync"), ("POST", "/receipt/"), ("GET", HISTORY)):
        matrix.proxy.faults.append(Fault(method, path, 429, times=30, retry_after_ms=20))

    await matrix.ann.says(matrix.direct, "hello")
    await matrix.hears("Calm.")
    await matrix.ann.says(matrix.direct, "and now?")
    await matrix.hears("Still calm.")

    await matrix.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    assert sum(call.status == 429 for call in matrix.proxy.journal) > 60


def to_event(scene: Scene, number: int, *, sent_at: int) -> dict[str, Any]:
    """Return a message of Ann's that the homeserver only tells of."""
    content = {"msgtype": "m.text", "body": f"number {number}"}
    own = {"event_id": f"$number-{number}", "sender": scene.ann.id, "room_id": scene.direct}
    return own | {"type": "m.room.message", "origin_server_ts": sent_at, "content": content}


async def test_a_room_in_which_a_look_up_lasts_keeps_its_order_and_no_other_room_waiting(matrix: Scene) -> None:
    ann, bob, room = matrix.ann, matrix.bob, matrix.room
    matrix.model.play([Answer("Of forgs."), Answer("Here."), Answer("And here."), Answer("Of frogs.")])
    named = {"m.mentions": {"user_ids": [matrix.agent.id]}}
    question = await ann.says(room, "tell me of forgs", **named)
    await matrix.hears("Of forgs.", room)
    # Longer than people wait.
    matrix.proxy.faults.append(Fault("GET", f"/event/{question}", SILENCE, times=1000))
    await ann.edits(room, question, "tell me of frogs")
    await matrix.proxy.until_silent()

    await bob.says(room, "and now?", **named)
    for text in ("Here.", "And here."):
        await ann.says(matrix.direct, "are you there?")
        await matrix.hears(text)
    stored = await matrix.sql("SELECT content FROM inbox ORDER BY id")
    assert stored == [("tell me of forgs",), ("are you there?",), ("are you there?",)]
    matrix.proxy.faults.clear()
    matrix.proxy.cut_all()

    await matrix.hears("Of frogs.", room)
    assert await matrix.value("SELECT content FROM inbox ORDER BY id LIMIT 1") == "tell me of frogs"


async def test_a_deletion_and_an_edit_count_however_long_the_homeserver_can_not_say_what_was_there(
    matrix: Scene,
) -> None:
    ann, direct = matrix.ann, matrix.direct
    matrix.model.play([Answer("Of forgs."), Answer("Of bikes.")])
    edited = await ann.says(direct, "tell me of forgs")
    await matrix.hears("Of forgs.")
    secret = await ann.says(direct, "and of a secret")
    await matrix.hears("Of bikes.")
    # Longer than a request is repeated.
    matrix.proxy.faults += [Fault("GET", f"/event/{event}", 502, times=4, is_page=True) for event in (edited, secret)]

    await ann.edits(direct, edited, "tell me of frogs")
    await ann.call("PUT", "rooms", direct, "redact", secret, secret, body={})

    await matrix.until_value("[deleted]", "SELECT content FROM inbox ORDER BY id DESC LIMIT 1")
    assert await matrix.sql("SELECT content FROM inbox ORDER BY id") == [("tell me of frogs",), ("[deleted]",)]


async def test_what_was_edited_and_deleted_while_the_agent_was_away_is_not_taken_for_a_question(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, direct = scene.ann, scene.direct
    async with scene.opened(address, model, works=False):
        pass
    question = await ann.says(direct, "tell me of forgs")
    await ann.edits(direct, question, "tell me of frogs")
    await ann.call("PUT", "rooms", direct, "redact", question, question, body={})
    last = await ann.says(direct, "hello")

    async with scene.opened(address, model, works=False):
        await scene.until_taken(last)
        assert await scene.sql("SELECT content FROM inbox") == [("hello",)]
