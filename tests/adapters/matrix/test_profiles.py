"""The name and the picture of a persona, in the rooms where it answers."""

from typing import Any

from tests.adapters.matrix.conftest import Scene
from tests.standins.openai_api import Answer
from tests.support.homeserver_proxy import Fault
from tests.support.pictures import picture

SHOWN = "PUT", "/state/m.room.member/"
PERSONA = "SELECT admin.create_persona('Sage', 'Answer.', platform => 'matrix', server => :room)"


async def test_a_persona_has_its_name_and_picture_in_its_room_alone(matrix: Scene) -> None:
    ann, room = matrix.ann, matrix.room
    matrix.model.play([Answer("I am Sage."), Answer("Still Sage."), Answer("Directly."), Answer("Nobody.")])
    await matrix.sql(PERSONA, room=room)
    await matrix.sql("SELECT admin.set_picture('Sage', :picture)", picture=(content := picture()))

    await ask(matrix, "who are you?", "I am Sage.")
    await ann.sees(lambda: profile(matrix)["displayname"] == "Sage")
    assert await matrix.homeserver.download(ann, profile(matrix)["avatar_url"]) == content
    await ask(matrix, "and now?", "Still Sage.")
    await ann.says(matrix.direct, "and here?")
    await matrix.hears("Directly.")
    assert profile(matrix, matrix.direct)["displayname"] != "Sage"

    await matrix.sql("UPDATE personas SET platform_server_id = 'elsewhere'")
    await ask(matrix, "and then?", "Nobody.")
    await ann.sees(lambda: profile(matrix)["displayname"] == "Parley")
    assert not profile(matrix).get("avatar_url")
    members = ann.of(matrix.agent.id, room, "m.room.member")
    assert [event["content"]["displayname"] for event in members] == ["Sage", "Parley"]
    assert calls(matrix, "POST", "/upload") == [200]


async def test_a_picture_is_uploaded_once_for_all_rooms(matrix: Scene) -> None:
    ann, room = matrix.ann, await matrix.world.make_channel("general", 0)
    matrix.model.play([Answer("Here."), Answer("There.")])
    await matrix.sql("SELECT admin.create_persona('Sage', 'Answer.', platform => 'matrix')")
    await matrix.sql("SELECT admin.set_picture('Sage', :picture)", picture=picture())

    for place, answer in ((matrix.room, "Here."), (room, "There.")):
        await ask(matrix, "hello", answer, place)
        await ann.sees(lambda place=place: profile(matrix, place)["displayname"] == "Sage")  # type: ignore[misc]

    assert profile(matrix)["avatar_url"] == profile(matrix, room)["avatar_url"]
    assert calls(matrix, "POST", "/upload") == [200]
    matrix.world.is_spoilt = True


async def test_where_a_room_forbids_it_the_agent_answers_under_its_own_name(matrix: Scene) -> None:
    matrix.model.play([Answer("Once."), Answer("Twice."), Answer("Directly.")])
    await matrix.sql(PERSONA, room=matrix.room)
    matrix.proxy.refuse(*SHOWN)

    await ask(matrix, "hello", "Once.")
    await matrix.proxy.until(lambda: calls(matrix, *SHOWN, matrix.room))
    await ask(matrix, "hello again", "Twice.")
    await matrix.proxy.until(lambda: len(calls(matrix, "POST", "/receipt/")) == 2)

    assert calls(matrix, *SHOWN, matrix.room) == [403]


async def test_who_puts_the_agent_out_of_a_room_is_not_undone_by_its_profile(matrix: Scene) -> None:
    bob, agent = matrix.bob, matrix.agent
    room = await bob.makes_room(preset="public_chat")
    await agent.joins(room)
    matrix.model.play([Answer("I am Sage.")])
    await matrix.sql(PERSONA, room=room)
    matrix.proxy.faults.append(Fault(*SHOWN, 429, retry_after_ms=3000))

    await bob.says(room, "who are you?", **{"m.mentions": {"user_ids": [agent.id]}})
    await matrix.proxy.until(lambda: calls(matrix, *SHOWN) == [429])
    await bob.call("POST", "rooms", room, "kick", body={"user_id": agent.id})
    before = len(matrix.proxy.journal)
    await matrix.proxy.until(lambda: any(SHOWN[1] in call.path for call in matrix.proxy.journal[before:]))

    member = await bob.call("GET", "rooms", room, "state", "m.room.member", agent.id)
    assert member["membership"] == "leave"


async def ask(scene: Scene, text: str, answer: str, room: str = "") -> None:
    room = room or scene.room
    await scene.ann.says(room, text, **{"m.mentions": {"user_ids": [scene.agent.id]}})
    await scene.hears(answer, room)


def profile(scene: Scene, room: str = "") -> dict[str, Any]:
    """Return how the agent shows itself in a room, as far as Ann has seen it."""
    members = scene.ann.of(scene.agent.id, room or scene.room, "m.room.member")
    return dict(members[-1]["content"]) if members else {"displayname": None}


def calls(scene: Scene, method: str, path: str, room: str = "") -> list[int]:
    """Return the statuses of the agent's requests of one kind, or those for a room."""
    own = [call for call in scene.proxy.journal if call.method == method and path in call.path]
    return [call.status for call in own if room in call.path]
