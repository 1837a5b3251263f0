"""Rooms that are upgraded, and what those try who lead the agent from one room to another."""

import time
from functools import partial
from typing import Any

import asyncpg
import pytest

from shared.db.database import Address
from tests.adapters.matrix.conftest import Scene
from tests.adapters.matrix.test_promises import was_answered
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.homeserver_proxy import SILENCE, Fault


async def make_room_of_bob(scene: Scene) -> str:
    """Make a public room of somebody whose invitations the agent declines, with the agent in it."""
    scene.invites = scene.ann.id
    room = await scene.bob.makes_room(preset="public_chat")
    await scene.agent.joins(room)
    return room


def to_tombstone(room: str, account: str, successor: str) -> dict[str, Any]:
    """Return the end of a room, of which the homeserver only tells."""
    state = {"type": "m.room.tombstone", "state_key": "", "content": {"replacement_room": successor}}
    own = {"event_id": f"${successor}", "sender": account, "room_id": room}
    return state | own | {"origin_server_ts": int(time.time() * 1000)}


async def test_nobody_leads_the_agent_to_a_room_that_is_no_successor(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, room = scene.bob, await make_room_of_bob(scene)
    elsewhere = await bob.makes_room(preset="public_chat")
    claim = {"predecessor": {"room_id": scene.room}}
    liar = await bob.makes_room(preset="public_chat", creation_content=claim)
    model.play([Answer("Here.")])
    async with scene.opened(address, model):
        for successor in (elsewhere, liar):
            body = {"body": "moved", "replacement_room": successor}
            await bob.call("PUT", "rooms", room, "state", "m.room.tombstone", "", body=body)
            await bob.sees(partial(was_answered, bob, successor, end="leave"))
            assert was_answered(bob, successor, end="join")
        await scene.ann.says(scene.direct, "hello")
        await scene.hears("Here.")


async def test_a_room_with_a_hundred_successors_whose_server_is_silent_keeps_nobody_waiting(matrix: Scene) -> None:
    matrix.model.play([Answer("Here.")])
    matrix.proxy.faults.append(Fault("POST", "/join/", SILENCE, times=1000))
    names = [f"!{number}:elsewhere.test" for number in range(150)]

    await matrix.proxy.repeat(*[to_tombstone(matrix.room, matrix.bob.id, successor) for successor in names])
    await matrix.proxy.until_silent()
    await matrix.ann.says(matrix.direct, "are you there?")

    await matrix.hears("Here.")


async def test_a_moderator_leads_nobody_to_a_room_of_which_they_are_the_admin(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, bob, agent, scene.invites = scene.ann, scene.bob, scene.agent, scene.ann.id
    # As other servers than Synapse make rooms: who may change any state may write that it has ended.
    levels = {"users": {ann.id: 100, bob.id: 50}, "state_default": 50, "events": {}}
    room = await ann.makes_room(preset="public_chat", room_version="11")
    await bob.joins(room)
    await ann.call("PUT", "rooms", room, "state", "m.room.power_levels", "", body=levels)
    await agent.joins(room)
    claim = {"predecessor": {"room_id": room}}
    own = await bob.makes_room(preset="public_chat", creation_content=claim)
    async with scene.opened(address, model):
        grant = (
            "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('matrix', :r, :role, 'admin')"
        )
        await scene.sql(grant, r=room, role=f"{room} admin")
        body = {"body": "moved", "replacement_room": own}
        await bob.call("PUT", "rooms", room, "state", "m.room.tombstone", "", body=body)
        await bob.sees(partial(was_answered, bob, own, end="leave"))
        assert await scene.sql("SELECT server, role FROM role_grants") == [(room, f"{room} admin")]


async def lead_just_before_it_dies(scene: Scene, address: Address, model: OpenAIStub) -> tuple[str, str]:
    """Let a room of Bob's lead the agent to another, and end it before it sees that; return both rooms."""
    room = await make_room_of_bob(scene)
    elsewhere = await scene.bob.makes_room(preset="public_chat")
    async with scene.opened(address, model, works=False):
        # What comes of the request is not seen any more.
        scene.proxy.faults.append(Fault("GET", "/sync", SILENCE))
        await scene.proxy.repeat(to_tombstone(room, scene.bob.id, elsewhere))
        await scene.bob.sees(partial(was_answered, scene.bob, elsewhere, end="join"))
    return room, elsewhere


async def test_who_led_the_agent_to_a_room_just_before_it_died_keeps_it_there_no_longer(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, elsewhere = await lead_just_before_it_dies(scene, address, model)

    async with scene.opened(address, model, works=False):
        await scene.bob.sees(partial(was_answered, scene.bob, elsewhere, end="leave"))


async def test_who_led_the_agent_to_a_room_and_puts_it_out_of_theirs_keeps_it_there_no_longer(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    # Another server lets the agent wait until the room that has led it there is gone.
    room, elsewhere = await lead_just_before_it_dies(scene, address, model)
    await scene.bob.call("POST", "rooms", room, "kick", body={"user_id": scene.agent.id})

    async with scene.opened(address, model, works=False):
        await scene.bob.sees(partial(was_answered, scene.bob, elsewhere, end="leave"))


async def test_nothing_is_answered_in_a_room_to_which_a_stranger_has_led_it_while_it_can_not_leave(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, proxy, room = scene.bob, scene.proxy, await make_room_of_bob(scene)
    elsewhere = await bob.makes_room(preset="public_chat")
    model.play([Answer("Here.")])
    proxy.refuse("POST", f"{elsewhere}/leave")

    async def until_refused(count: int) -> None:
        leaving = f"{elsewhere}/leave"
        await proxy.until(lambda: sum(leaving in call.path for call in proxy.journal) >= count)

    async with scene.opened(address, model):
        body = {"body": "moved", "replacement_room": elsewhere}
        await bob.call("PUT", "rooms", room, "state", "m.room.tombstone", "", body=body)
        await until_refused(1)
        await bob.says(elsewhere, "hello from there", **{"m.mentions": {"user_ids": [scene.agent.id]}})
        await until_refused(2)
        await scene.ann.says(scene.direct, "hello")
        await scene.hears("Here.")
        proxy.faults.clear()
        await bob.says(elsewhere, "are you there?")
        await bob.sees(partial(was_answered, bob, elsewhere, end="leave"))
        assert await scene.sql("SELECT content FROM inbox") == [("hello",)]


async def test_a_pause_that_went_to_the_successor_of_a_room_leaves_nobody_unpaused_in_the_old_one(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, room = scene.bob, await make_room_of_bob(scene)
    successor = await bob.makes_room(preset="public_chat", creation_content={"predecessor": {"room_id": room}})
    pause = "INSERT INTO servers (platform, platform_server_id, paused_at) VALUES ('matrix', :room, now())"
    async with scene.opened(address, model):
        await scene.sql(pause, room=room)
        body = {"body": "moved", "replacement_room": successor}
        await bob.call("PUT", "rooms", room, "state", "m.room.tombstone", "", body=body)
        await scene.until_value(successor, "SELECT platform_server_id FROM servers WHERE paused_at IS NOT NULL")

        await bob.sees(partial(was_answered, bob, room, end="leave"))


async def test_a_stranger_who_upgrades_a_private_room_invites_the_agent_to_the_successor_alone(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, agent, scene.invites = scene.bob, scene.agent, scene.ann.id
    room = await bob.makes_room(agent.id)
    await agent.joins(room)
    elsewhere = await bob.makes_room()
    async with scene.opened(address, model, works=False):
        body = {"body": "moved", "replacement_room": elsewhere}
        await bob.call("PUT", "rooms", room, "state", "m.room.tombstone", "", body=body)
        await bob.call("POST", "rooms", elsewhere, "invite", body={"user_id": agent.id})
        await bob.sees(partial(was_answered, bob, elsewhere, end="leave"))

        successor = (await bob.call("POST", "rooms", room, "upgrade", body={"new_version": "11"}))["replacement_room"]
        await bob.call("POST", "rooms", successor, "invite", body={"user_id": agent.id})
        await bob.sees(partial(was_answered, bob, room, end="leave"))

    member = await bob.call("GET", "rooms", successor, "state", "m.room.member", agent.id)
    assert member["membership"] == "join"


async def end_during_a_look_up(scene: Scene, room: str) -> str:
    """Have Bob end a room while an edit in it is looked up; return its successor, to which the agent is invited."""
    ann, bob, agent, proxy = scene.ann, scene.bob, scene.agent, scene.proxy
    said = await bob.says(room, "a word")
    proxy.faults.append(Fault("GET", f"/event/{said}", SILENCE, times=1000))
    await bob.edits(room, said, "another word")
    await proxy.until_silent()
    successor = (await bob.call("POST", "rooms", room, "upgrade", body={"new_version": "11"}))["replacement_room"]
    await bob.call("POST", "rooms", successor, "invite", body={"user_id": agent.id})
    # What Ann does later is taken: so this was seen, too.
    other = await ann.makes_room(agent.id)
    await ann.sees(partial(was_answered, ann, other, end="join"))
    return str(successor)


async def test_a_room_that_ends_while_a_look_up_lasts_there_is_followed(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, agent, proxy, scene.invites = scene.bob, scene.agent, scene.proxy, scene.ann.id
    room = await bob.makes_room(agent.id)
    await agent.joins(room)
    async with scene.opened(address, model, works=False):
        successor = await end_during_a_look_up(scene, room)
        proxy.faults.clear()
        proxy.cut_all()
        await bob.sees(partial(was_answered, bob, room, end="leave"))

    member = await bob.call("GET", "rooms", successor, "state", "m.room.member", agent.id)
    assert member["membership"] == "join"


async def test_an_invitation_to_the_successor_of_a_room_is_not_declined_by_a_process_that_ends_before_it_knows_that(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, agent, proxy, scene.invites = scene.bob, scene.agent, scene.proxy, scene.ann.id
    room = await bob.makes_room(agent.id)
    await agent.joins(room)
    async with scene.opened(address, model, works=False):
        successor = await end_during_a_look_up(scene, room)
        # What comes of the next request is not seen any more.
        proxy.faults.append(Fault("GET", "/sync", 502, times=3))
        proxy.cut_all()
        await bob.sees(partial(was_answered, bob, room, end="leave"))

    member = await bob.call("GET", "rooms", successor, "state", "m.room.member", agent.id)
    assert member["membership"] == "join"


@pytest.mark.parametrize("version", ["11", "12"])
async def test_what_is_set_for_a_room_is_set_for_its_successor(
    scene: Scene, address: Address, model: OpenAIStub, version: str
) -> None:
    ann, bob, agent, scene.invites = scene.ann, scene.bob, scene.agent, "@nobody:matrix.test"
    room = await bob.makes_room(preset="public_chat")
    for person in (agent, ann):
        await person.joins(room)
    model.play([Answer("In the new room.")])
    async with scene.opened(address, model):
        await scene.sql("SELECT admin.set_channel_mode('matrix', :room, NULL, 'always')", room=room)
        await scene.sql("SELECT admin.create_persona('Sage', 'I am Sage.', platform => 'matrix', server => :r)", r=room)
        await scene.sql(
            "INSERT INTO role_grants (platform, server, role) VALUES ('matrix', :r, :r || ' admin')", r=room
        )

        upgraded = await bob.call("POST", "rooms", room, "upgrade", body={"new_version": version})
        successor = upgraded["replacement_room"]
        await bob.sees(partial(was_answered, bob, successor, end="join"))
        await bob.says(successor, "no mention is needed")
        await bob.hears(agent.id, successor, "In the new room.")

        assert "I am Sage." in str(model.requests[-1].body)
        assert await scene.sql("SELECT server, role FROM role_grants") == [(successor, f"{successor} admin")]


async def test_a_successor_whose_old_room_can_not_be_left_is_not_left_whatever_that_says_later(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, agent, room = scene.bob, scene.agent, await make_room_of_bob(scene)
    model.play([Answer("Still here.")])
    scene.proxy.refuse("POST", f"{room}/leave")
    async with scene.opened(address, model, works=False):
        upgraded = await bob.call("POST", "rooms", room, "upgrade", body={"new_version": "11"})
        successor = upgraded["replacement_room"]
        # It came with a note of who has led it there, and that is gone.
        await bob.sees(lambda: len(own_events(scene, successor)) == 2)
    body = {"body": "moved", "replacement_room": "!elsewhere:matrix.test"}
    await bob.call("PUT", "rooms", room, "state", "m.room.tombstone", "", body=body)

    async with scene.opened(address, model):
        await bob.says(successor, "are you here?", **{"m.mentions": {"user_ids": [agent.id]}})
        await bob.hears(agent.id, successor, "Still here.")
    assert [event["content"].get("reason") for event in own_events(scene, successor)] == [room, None]


def own_events(scene: Scene, room: str) -> list[dict[str, Any]]:
    """Return what Bob has seen of the agent's membership in a room."""
    return scene.bob.of(scene.agent.id, room, "m.room.member")


async def test_a_room_of_which_the_succession_fails_keeps_nobody_waiting_at_the_start(
    scene: Scene, address: Address, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    bob, agent, room = scene.bob, scene.agent, await make_room_of_bob(scene)
    model.play([Answer("Here.")])
    async with scene.opened(address, model, works=False):
        await scene.sql("SELECT admin.set_channel_mode('matrix', :room, NULL, 'always')", room=room)
    upgraded = await bob.call("POST", "rooms", room, "upgrade", body={"new_version": "11"})
    await agent.joins(upgraded["replacement_room"])
    await owner.execute(f"ALTER TABLE channel_modes ADD CONSTRAINT stays CHECK (platform_server_id = '{room}')")

    async with scene.opened(address, model):
        await scene.ann.says(scene.direct, "are you there?")
        await scene.hears("Here.")
