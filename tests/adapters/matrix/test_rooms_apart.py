"""What one room, one person or one answer of the homeserver does is felt in no other room."""

import json
import time
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from adapters.api_client import list_names
from adapters.chat.account.listening import MOST_CHARS
from shared.db.database import Address
from tests.adapters.matrix.conftest import Scene
from tests.adapters.matrix.test_promises import was_answered
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.homeserver_proxy import HISTORY, SILENCE, Fault

ANSWER_BYTES = 1024 * 1024
NONSENSE: tuple[Any, ...] = ("many", None, [], {"a": 1}, 2**70, -1)
SAID = "SELECT content FROM inbox ORDER BY id"
EDITED = {"msgtype": "m.text", "body": "* x", "m.new_content": {"msgtype": "m.text", "body": "x"}}


def to_event(room: str, account: str, number: int, **content: Any) -> dict[str, Any]:
    """Return a message that the homeserver only tells of."""
    own = {"event_id": f"$number-{number}", "sender": account, "room_id": room, "type": "m.room.message"}
    whole = {"msgtype": "m.text", "body": f"number {number}"} | content
    return own | {"content": whole, "origin_server_ts": int(time.time() * 1000)}


def to_edit(room: str, account: str, event: str) -> dict[str, Any]:
    """Return an edit of an event."""
    edit = EDITED | {"m.relates_to": {"rel_type": "m.replace", "event_id": event}}
    return to_event(room, account, 0, **edit) | {"event_id": f"$edit-{room}"}


async def hold_up(scene: Scene) -> None:
    """Let an edit of Bob's in his direct room be looked up without an answer."""
    said = await scene.bob.says(scene.world.bobs_direct, "a word")
    await scene.until_value(1, "SELECT count(*) FROM inbox")
    scene.proxy.faults.append(Fault("GET", f"/event/{said}", SILENCE, times=1000))
    await scene.bob.edits(scene.world.bobs_direct, said, "another word")
    await scene.proxy.until_silent()


def connections(scene: Scene) -> int:
    """Return how often the agent has begun to listen."""
    return sum("/whoami" in call.path for call in scene.proxy.journal)


@pytest.mark.timeout(300)
async def test_one_slow_room_stops_no_other_however_much_happens_there_and_has_its_own_order(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, bob, proxy, slow = scene.ann, scene.bob, scene.proxy, scene.world.bobs_direct
    proxy.latency = 0
    texts = [f"{number} {'x' * 20_000}" for number in range(MOST_CHARS // 20_000 + 10)]
    async with scene.opened(address, model, works=False):
        await hold_up(scene)
        for text in texts:
            await bob.says(slow, text)
            # What comes after this one is of another batch.
            await ann.says(scene.direct, between := f"after {text[:4]}")
            await scene.until_value(1, "SELECT count(*) FROM inbox WHERE content = :text", text=between)
        for number in range(600):
            await proxy.repeat(to_event(scene.direct, ann.id, number))
        await scene.until_value("number 599", "SELECT content FROM inbox ORDER BY id DESC LIMIT 1")
        assert not any(HISTORY in call.path for call in proxy.journal)
        proxy.faults.clear()
        proxy.cut_all()
        await scene.until_value(texts[-1], "SELECT content FROM inbox ORDER BY id DESC LIMIT 1")
        here = "SELECT content FROM inbox WHERE platform_channel_id = :slow ORDER BY id"
        assert [row.content for row in await scene.sql(here, slow=slow)][1:] == texts
        assert any(f"{slow}{HISTORY}" in call.path for call in proxy.journal)
        await scene.until_value(True, "SELECT mark IS NOT NULL FROM chat_listeners")


@pytest.mark.parametrize(("status", "is_page"), [(403, False), (404, False), (200, True)], ids=["403", "404", "page"])
async def test_what_was_left_out_and_can_not_be_had_is_named_once_and_nobody_waits_for_it(
    scene: Scene, address: Address, model: OpenAIStub, status: int, is_page: bool
) -> None:
    ann, bob, proxy, scene.is_hasty = scene.ann, scene.bob, scene.proxy, True
    room = scene.world.bobs_direct
    async with scene.opened(address, model, works=False):
        proxy.missed = [to_event(room, bob.id, 0)]
        proxy.faults.append(Fault("GET", HISTORY, status, times=1000, is_page=is_page))
        with capture_logs() as logs:
            await proxy.repeat(to_event(room, bob.id, 1))
            proxy.missed = []
            await ann.says(scene.direct, "meanwhile")
            await scene.until_value("meanwhile", "SELECT content FROM inbox")
            await bob.says(room, "and then")
            await scene.until_value(3, "SELECT count(*) FROM inbox")
        assert await scene.sql(SAID) == [("meanwhile",), ("number 1",), ("and then",)]
        assert [line["place"] for line in logs if line["event"] == "place_not_read"] == [room]
        # It was asked for again before that.
        assert sum(HISTORY in call.path for call in proxy.journal) > 1
        assert connections(scene) == 1


async def test_a_room_of_which_the_history_can_not_be_read_for_a_while_alone_waits_for_it(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, bob, proxy, room = scene.ann, scene.bob, scene.proxy, scene.world.bobs_direct
    async with scene.opened(address, model, works=False):
        proxy.missed = [to_event(room, bob.id, 0)]
        # Longer than one request is repeated.
        proxy.faults.append(Fault("GET", HISTORY, 500, times=4))
        await proxy.repeat(to_event(room, bob.id, 1))
        await ann.says(scene.direct, "meanwhile")
        await scene.until_value(3, "SELECT count(*) FROM inbox")
        assert await scene.sql(SAID) == [("meanwhile",), ("number 0",), ("number 1",)]
        assert connections(scene) == 1


async def test_a_room_where_it_can_not_show_who_it_is_keeps_no_other_waiting_at_the_start(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, agent, scene.invites = scene.bob, scene.agent, scene.ann.id
    room = await bob.makes_room(preset="public_chat")
    await agent.joins(room)
    successor = (await bob.call("POST", "rooms", room, "upgrade", body={"new_version": "11"}))["replacement_room"]
    await agent.call("POST", "join", successor, body={"reason": room})
    scene.proxy.faults.append(Fault("PUT", f"{successor}/state/m.room.member", 500, times=1000))
    async with scene.opened(address, model, works=False):
        await scene.ann.says(scene.direct, "hello")
        await scene.until_value("hello", "SELECT content FROM inbox")
        scene.proxy.faults.clear()
        # It was tried again.
        await bob.sees(partial(was_answered, bob, room, end="leave"))
        assert connections(scene) == 1


async def test_look_ups_without_an_answer_in_two_hundred_rooms_keep_no_other_waiting(matrix: Scene) -> None:
    matrix.model.play([Answer("Here.")])
    matrix.proxy.faults.append(Fault("GET", "/event/", SILENCE, times=10_000))
    rooms = [f"!{number}:elsewhere.test" for number in range(200)]

    await matrix.proxy.repeat(*[to_edit(room, matrix.bob.id, "$other") for room in rooms])
    await matrix.proxy.until_silent(50)
    await matrix.ann.says(matrix.direct, "are you there?")

    await matrix.hears("Here.")
    assert connections(matrix) == 1


async def test_a_flood_of_messages_whose_read_marks_get_no_answer_keeps_no_other_room_waiting(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    room, bob, proxy = scene.world.bobs_direct, scene.bob, scene.proxy
    async with scene.opened(address, model, works=False):
        proxy.faults.append(Fault("POST", "/receipt/", SILENCE, times=10_000))
        await proxy.repeat(*[to_event(room, bob.id, number) for number in range(300)])
        await scene.until_value(300, "SELECT count(*) FROM inbox")
        await scene.ann.says(scene.direct, "hello")
        await scene.until_value("hello", "SELECT content FROM inbox ORDER BY id DESC LIMIT 1")
        # One of each room.
        await proxy.until_silent(2)
        assert sum(call.status == SILENCE for call in proxy.journal) == 2


async def test_a_thousand_invitations_of_strangers_to_a_silent_server_keep_no_welcome_one_waiting(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, bob, proxy, scene.invites = scene.ann, scene.bob, scene.proxy, scene.ann.id
    invitation = {"type": "m.room.member", "state_key": scene.agent.id, "content": {"membership": "invite"}}
    async with scene.opened(address, model, works=False):
        proxy.faults.append(Fault("POST", ":elsewhere.test/leave", SILENCE, times=10_000))
        names = [f"!{number}:elsewhere.test" for number in range(1000)]
        await proxy.invite([invitation | {"sender": bob.id}], *names)
        await proxy.until_silent()
        room = await ann.makes_room(scene.agent.id)
        await ann.sees(partial(was_answered, ann, room, end="join"))
        # His are declined one after the other.
        assert sum(call.status == SILENCE for call in proxy.journal) < 10


async def test_a_room_of_which_the_homeserver_tells_nonsense_keeps_no_other_waiting(matrix: Scene) -> None:
    matrix.model.play([Answer("Here.")])
    odd: list[Any] = [None, [], "x", 5, {}, {"timeline": 5}, {"timeline": {"events": 5, "limited": True}}]
    odd += [{"timeline": {"events": [5, None, [], {}]}}, {"state": {"events": {"a": 1}}}, {"summary": []}]
    odd += [{"summary": {"m.joined_member_count": count}} for count in NONSENSE]
    odd += [{"summary": {"m.joined_member_count": 2, "m.invited_member_count": "many"}}]
    space = {"type": "m.room.create", "state_key": "", "content": {"type": "m.space"}}
    child = {"type": "m.space.child", "state_key": matrix.direct, "content": {"via": ["x"]}}
    odd += [{"state": {"events": [space, child | {"sender": sender}]}} for sender in NONSENSE]
    rooms = {f"!{number}:elsewhere.test": room for number, room in enumerate(odd)}

    await matrix.proxy.tell_of(rooms)
    await matrix.ann.says(matrix.direct, "are you there?")

    await matrix.hears("Here.")
    assert connections(matrix) == 1


@pytest.mark.parametrize("end", [None, 5, [], {"a": 1}, "missed-1"])
async def test_pages_of_nonsense_are_read_to_their_end(
    scene: Scene, address: Address, model: OpenAIStub, end: Any
) -> None:
    room, proxy = scene.direct, scene.proxy
    async with scene.opened(address, model, works=False):
        proxy.missed = [to_event(room, scene.ann.id, 0), *({"type": odd} for odd in NONSENSE)]
        proxy.after_last = iter([end] * 10)
        await proxy.repeat(to_event(room, scene.ann.id, 1))
        await scene.until_value(2, "SELECT count(*) FROM inbox")
        assert connections(scene) == 1


async def test_the_deepest_event_that_the_homeserver_takes_is_read(matrix: Scene) -> None:
    matrix.model.play([Answer("Here.")])
    accepted = 0
    for depth in (50, 100, 200, 300, 400, 500, 700, 900, 2000, 10_000):
        content: Any = "[" * depth + "]" * depth
        body = f'{{"msgtype": "m.text", "body": "deep", "deep": {content}}}'.encode()
        path = ("rooms", matrix.room, "send", "m.room.message", f"deep-{depth}")
        status, _ = await matrix.homeserver.request("PUT", path, body, token=matrix.bob.token)
        accepted = depth if status == 200 else accepted
    assert accepted >= 50

    await matrix.ann.says(matrix.direct, "are you there?")

    await matrix.hears("Here.")
    assert connections(matrix) == 1


async def test_an_edit_of_an_edit_is_no_message(matrix: Scene) -> None:
    matrix.model.play([Answer("Of bikes."), Answer("Here.")])
    question = await matrix.ann.says(matrix.direct, "tell me of bikes")
    await matrix.hears("Of bikes.")

    edit = await matrix.ann.edits(matrix.direct, question, "tell me of boats")
    await matrix.ann.edits(matrix.direct, edit, "tell me of Bob")
    await matrix.ann.says(matrix.direct, "and then?")
    await matrix.hears("Here.")

    assert await matrix.sql(SAID) == [("tell me of boats",), ("and then?",)]


async def test_ten_thousand_reactions_keep_no_other_room_waiting(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    relation = {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$any", "key": "👍"}}
    async with scene.opened(address, model, works=False):
        reactions = [to_event(scene.room, scene.bob.id, number) for number in range(10_000)]
        await scene.proxy.repeat(*[event | {"type": "m.reaction", "content": relation} for event in reactions])
        await scene.ann.says(scene.direct, "hello")
        await scene.until_value("hello", "SELECT content FROM inbox")


async def test_rooms_that_name_each_other_as_successors_are_no_circle_to_run_in(matrix: Scene) -> None:
    bob, agent = matrix.bob, matrix.agent
    matrix.model.play([Answer("Here.")])
    first = await bob.makes_room(preset="public_chat")
    await agent.joins(first)
    second = await bob.makes_room(preset="public_chat", creation_content={"predecessor": {"room_id": first}})
    for old, new in ((first, second), (second, first)):
        body = {"body": "moved", "replacement_room": new}
        await bob.call("PUT", "rooms", old, "state", "m.room.tombstone", "", body=body)
        await bob.sees(partial(was_answered, bob, new, end="join"))
    await matrix.ann.says(matrix.direct, "are you there?")

    await matrix.hears("Here.")
    assert sum("/join/" in call.path for call in matrix.proxy.journal) <= 2


async def fill_space(scene: Scene) -> str:
    """Return a space of Bob's with more children than one answer holds; the agent is invited."""
    space = await scene.bob.makes_room(creation_content={"type": "m.space"})
    for number in range(20):
        body = {"via": ["matrix.test"], "padding": "x" * 60_000}
        await scene.bob.call("PUT", "rooms", space, "state", "m.space.child", f"!{number}:matrix.test", body=body)
    await scene.bob.call("POST", "rooms", space, "invite", body={"user_id": scene.agent.id})
    return space


@pytest.mark.parametrize("is_away", [True, False])
async def test_a_space_too_large_to_be_read_is_left_and_keeps_no_other_room_waiting(
    scene: Scene, address: Address, model: OpenAIStub, is_away: bool
) -> None:
    ann, bob, scene.most_bytes = scene.ann, scene.bob, ANSWER_BYTES
    space = await fill_space(scene) if is_away else ""
    if is_away:
        await scene.agent.joins(space)
    with capture_logs() as logs:
        async with scene.opened(address, model, works=False):
            space = space or await fill_space(scene)
            await bob.sees(partial(was_answered, bob, space, end="leave"))
            await ann.says(scene.direct, "hello")
            await scene.until_value("hello", "SELECT content FROM inbox")
            assert connections(scene) == 1
    assert [line["room"] for line in logs if line["event"] == "matrix_room_too_large"] == [space]


async def test_rooms_that_hold_more_together_than_one_answer_are_read_a_few_at_a_time(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, agent, scene.most_bytes, scene.world.is_spoilt = scene.bob, scene.agent, ANSWER_BYTES, True
    rooms = [await bob.makes_room(agent.id) for _ in range(6)]

    async def fill_rooms(name: str) -> None:
        for number, room in enumerate(rooms):
            for key in range(5):
                path = ("rooms", room, "state", "m.room.topic", f"{name} {key}")
                await bob.call("PUT", *path, body={"topic": "x" * 60_000})
            await bob.call("PUT", "rooms", room, "state", "m.room.name", "", body={"name": f"{name} {number}"})

    async def says_everywhere(text: str) -> list[tuple[str, bool]]:
        for room in rooms:
            await bob.says(room, text)
        await scene.until_value(6, "SELECT count(*) FROM inbox WHERE content = :text", text=text)
        rows = "SELECT platform_context ->> 'channel_name', is_direct FROM inbox WHERE content = :text ORDER BY id"
        return [tuple(row) for row in await scene.sql(rows, text=text)]

    for room in rooms:
        await agent.joins(room)
    await fill_rooms("Room")
    async with scene.opened(address, model, works=False):
        assert sorted(await says_everywhere("hello")) == [(f"Room {number}", True) for number in range(6)]
        await scene.until_value(True, "SELECT mark IS NOT NULL FROM chat_listeners")
    await fill_rooms("Hall")
    async with scene.opened(address, model, works=False):
        assert sorted(await says_everywhere("and now")) == [(f"Hall {number}", True) for number in range(6)]
        assert {row.channel for row in await scene.sql("SELECT platform_channel_id AS channel FROM inbox")} == {*rooms}
        joined = await agent.call("GET", "joined_rooms")
        assert {*rooms} <= {*joined["joined_rooms"]}


@pytest.mark.parametrize(
    # How large they are, and what the homeserver tells of a room to whoever is invited.
    ("topics", "invitations", "name_chars", "lies"),
    [(10, 8, 10, 0), (5, 14, 10, 0), (0, 20, 60_000, 0), (0, 20, 60_000, 600)],
)
async def test_large_invitations_make_the_agent_leave_no_room_and_keep_it_from_nothing(
    scene: Scene, address: Address, model: OpenAIStub, *, topics: int, invitations: int, name_chars: int, lies: int
) -> None:
    ann, bob, agent, scene.most_bytes, scene.invites = scene.ann, scene.bob, scene.agent, ANSWER_BYTES, scene.ann.id
    # Far away: whoever hangs up at once has said nothing.
    scene.world.is_spoilt, scene.proxy.latency = True, 0.3
    for key in range(topics):
        path = ("rooms", scene.room, "state", "m.room.topic", str(key))
        await ann.call("PUT", *path, body={"topic": "x" * 60_000})
    invite = {"membership": "invite", "reason": "x" * 60_000}
    for _ in range(invitations):
        room = await bob.makes_room(name="x" * name_chars)
        await bob.call("PUT", "rooms", room, "state", "m.room.member", agent.id, body=invite)
    if lies:
        # What looks like more invitations than are declined at once, and comes before them.
        lie = {"membership": {f"!{number}:matrix.test": {"invite_state": 0} for number in range(lies)}}
        await bob.call("PUT", "rooms", scene.room, "send", "lies", "1", body=lie)
    with capture_logs() as logs:
        async with scene.opened(address, model, works=False):
            await ann.says(scene.direct, "hello")
            await scene.until_value("hello", "SELECT content FROM inbox")
    joined = await agent.call("GET", "joined_rooms")
    assert scene.room in joined["joined_rooms"]
    assert [line for line in logs if line["event"] == "matrix_room_too_large"] == []


def test_the_invitations_in_the_beginning_of_an_answer_are_no_names_that_somebody_has_written() -> None:
    lie = {"rooms": {"invite": {"!lie:evil.test": {"invite_state": {}}}}, "!lie:evil.test": {"invite_state": {}}}
    own = {name: {"invite_state": {"events": [{"content": lie}]}} for name in ('!a"b:evil.test', "!\u00e9:x", "!c:x")}
    answer = {"to_device": {"events": [lie]}, "rooms": {"join": {"!d:x": lie}, "invite": own, "leave": lie}}
    for text in (json.dumps(answer), json.dumps(answer, indent=2)):
        assert list_names(text, "rooms", "invite") == [*own]
        for end in range(len(text)):
            names = list_names(text[:end], "rooms", "invite")
            assert names == [*own][: len(names)]
    assert [
        list_names(text, "rooms") for text in ("", "[" * 100_000, '{"rooms":null}', '{"rooms":{"a":' + "[" * 100_000)
    ] == [[], [], [], ["a"]]


async def test_a_flood_of_large_messages_in_many_rooms_is_read_room_by_room(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, bob, scene.most_bytes = scene.ann, scene.bob, ANSWER_BYTES
    rooms = [await bob.makes_room(scene.agent.id) for _ in range(3)]
    for room in rooms:
        await scene.agent.joins(room)
    async with scene.opened(address, model, works=False):
        await ann.says(scene.direct, "hello")
        await scene.until_value("hello", "SELECT content FROM inbox")
        await scene.until_value(True, "SELECT mark IS NOT NULL FROM chat_listeners")
    texts = [f"{number} {'x' * 9000}" for number in range(50)]
    for text in texts:
        for room in rooms:
            await bob.says(room, text)
    async with scene.opened(address, model, works=False):
        await ann.says(scene.direct, "and then")
        await scene.until_value(152, "SELECT count(*) FROM inbox")
        for room in rooms:
            said = "SELECT content FROM inbox WHERE platform_channel_id = :room ORDER BY id"
            assert [row.content for row in await scene.sql(said, room=room)] == texts
