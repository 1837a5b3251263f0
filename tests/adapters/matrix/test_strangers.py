"""What members, strangers, other servers and a homeserver that lies try."""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import asyncpg
import pytest
from aiohttp import web

from adapters.base import stay_up
from adapters.chat.parts import Post
from adapters.chat.posting import PostingPlatform
from adapters.matrix.client import Client
from adapters.matrix.incoming import to_sent_at
from adapters.matrix.platform import to_content
from agent.commands.grants.people import to_notice
from agent.queue.inbox import accept_within
from shared.db.database import Address
from shared.errors import Unavailable
from shared.messages import Place
from tests.adapters.matrix.conftest import Scene
from tests.adapters.matrix.test_promises import was_answered
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.stand_in import ChatStandIn
from tests.support.homeserver_proxy import SILENCE, Fault

SAID = "SELECT content FROM inbox ORDER BY id"
MOST_SECONDS = 30.0


async def test_answers_of_a_database_that_begins_again_are_new_ones(matrix: Scene, owner: asyncpg.Connection) -> None:
    matrix.model.play([Answer("Before."), Answer("After.")])
    await matrix.ann.says(matrix.direct, "hello")
    await matrix.hears("Before.")
    await matrix.until_value("delivered", "SELECT status FROM outbox")

    await owner.execute("TRUNCATE turns, inbox, outbox, conversations RESTART IDENTITY CASCADE")
    await matrix.ann.says(matrix.direct, "hello again")

    await matrix.hears("After.")


async def test_a_space_of_a_stranger_is_not_the_server_of_the_rooms_that_it_lists(matrix: Scene) -> None:
    ann, bob, agent = matrix.ann, matrix.bob, matrix.agent
    room = await ann.makes_room(preset="public_chat")
    space = await bob.makes_room(preset="public_chat", creation_content={"type": "m.space"})
    for joined in (room, space):
        await agent.joins(joined)
    await bob.call("PUT", "rooms", space, "state", "m.space.child", room, body={"via": ["matrix.test"]})
    matrix.model.play([Answer("Here.")])

    await ann.says(room, "hello", **{"m.mentions": {"user_ids": [agent.id]}})
    await matrix.hears("Here.", room)

    assert await matrix.value("SELECT platform_server_id FROM conversations") == room


async def test_who_was_put_out_of_a_room_has_not_spoken_to_the_agent_alone(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, bob, agent = scene.ann, scene.bob, scene.agent
    room = await ann.makes_room(agent.id, bob.id)
    for person in (agent, bob):
        await person.joins(room)
    async with scene.opened(address, model, works=False):
        pass
    said = await bob.says(room, "what I say to Ann")
    await ann.call("POST", "rooms", room, "kick", body={"user_id": bob.id})

    async with scene.opened(address, model, works=False):
        await scene.proxy.until_taken(said)
        await ann.says(room, "now we are")
        await scene.until_value(True, "SELECT count(*) > 0 FROM inbox")
        assert await scene.sql(SAID) == [("now we are",)]


async def test_whom_an_inviting_server_names_beside_the_inviter_is_not_believed(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, bob, agent = scene.ann, scene.bob, scene.agent
    scene.invites = ann.id
    async with scene.opened(address, model, works=False):
        room = await bob.makes_room(agent.id)
        await bob.sees(partial(was_answered, bob, room, end="leave"))
        invitation = {"type": "m.room.member", "state_key": agent.id, "content": {"membership": "invite"}}
        scene.proxy.journal.clear()
        await scene.proxy.invite([invitation | {"sender": person.id} for person in (ann, bob)], room)
        await scene.proxy.until(
            lambda: any(room in call.path and call.method == "POST" for call in scene.proxy.journal)
        )
        assert [call.path.endswith("/leave") for call in scene.proxy.journal if room in call.path] == [True]


async def test_a_private_answer_goes_to_no_room_to_which_a_stranger_has_invited_its_reader(scene: Scene) -> None:
    ann, bob, agent, platform = scene.ann, scene.bob, scene.agent, scene.build()
    room = await bob.makes_room(agent.id, ann.id)
    await agent.joins(room)
    await bob.call("POST", "rooms", room, "leave", body={})
    await platform.client.note_direct(ann.id, room)

    direct = await platform.open_direct(ann.id)

    assert direct != room
    # Until she has come in, it is the same one.
    assert await platform.open_direct(ann.id) == direct
    await platform.client.note_direct(ann.id, scene.direct)
    await platform.aclose()


async def test_an_edit_to_the_longest_text_fits_into_an_event(scene: Scene) -> None:
    place, platform = Place("matrix", None, scene.direct, is_direct=True), scene.build()
    message = await platform.post(place, Post("short", "post"))

    for number, text in enumerate(("語" * 8000, "**&**" * 1600, "[a](https://b.c) " * 470)):
        await platform.edit(place, message, Post(text, f"edit-{number}"))

    await platform.aclose()


def test_a_table_that_would_have_a_million_cells_stays_text() -> None:
    text = "|a" * 1000 + "\n" + "|-" * 1000 + "\n" + "|\n" * 2000

    assert "formatted_body" not in to_content(Post(text, "key"))


@pytest.mark.parametrize("sent_at", [-(2**53), 2**53])
def test_an_event_of_any_year_has_a_time(sent_at: int) -> None:
    assert to_sent_at({"origin_server_ts": sent_at}).year in (1970, 2096)


async def lie(request: web.BaseRequest) -> web.StreamResponse:
    """Answer as the last part of the path says."""
    kind = request.path.rpartition("/")[2]
    if kind == "elsewhere":
        return web.Response(status=302, headers={"Location": "/x"})
    if kind == "deep":
        return web.Response(text="[" * 200_000)
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 1024 * 1024)


async def test_answers_of_a_server_that_lies_are_those_of_one_that_is_away() -> None:
    async with ChatStandIn(web.Server(lie), 0) as liar:
        client = Client(liar.base)
        calls = [client.call("GET", (kind,)) for kind in ("elsewhere", "deep", "endless")]
        errors = await asyncio.gather(*calls, return_exceptions=True)
        await client.aclose()
    assert [type(error) for error in errors] == [Unavailable] * 3


@pytest.mark.parametrize("wait", [-5, "for ever", [], float("inf")])
def test_a_wait_that_is_none_is_a_second(wait: object) -> None:
    assert Client("https://hs").find_pause({"retry_after_ms": wait}) == 1


async def test_a_platform_that_was_away_for_long_is_asked_again_soon() -> None:
    starts = 0

    async def start() -> None:
        nonlocal starts
        starts += 1
        if starts < 20:
            raise Unavailable("away")
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await stay_up("matrix", start, lambda: 0.0, longest_wait=0.0)

    assert PostingPlatform.longest_wait < MOST_SECONDS


ODD: tuple[Any, ...] = (
    None,
    [],
    {},
    "",
    "$",
    0,
    -1,
    2**70,
    1.5,
    True,
    ["a"],
    {"a": []},
    "x" * 70_000,
    "\0",
    "@",
    "!",
    "mxc://",
)
KINDS = ("m.room.message", "m.room.redaction", "m.reaction", "m.room.encrypted", "m.room.tombstone", "m.room.member")


def odd_events(room: str, account: str) -> Iterator[dict[str, Any]]:
    """Yield events of which one part or another is nothing that the specification allows."""
    numbers = count()
    for kind in KINDS:
        event = {"type": kind, "sender": account, "room_id": room, "origin_server_ts": int(time.time() * 1000)}
        for odd in ODD:
            relations = [odd, {"rel_type": odd}, {"rel_type": "m.replace", "event_id": odd}, {"m.in_reply_to": odd}]
            contents = [{"msgtype": odd, "body": odd, "formatted_body": odd, "m.mentions": odd, "info": odd}]
            contents += [{"msgtype": "m.file", "body": odd, "url": odd, "info": {"size": odd, "mimetype": odd}}]
            contents += [{"msgtype": "m.text", "body": "x", "m.relates_to": relation} for relation in relations]
            contents += [{"replacement_room": odd, "redacts": odd, "membership": odd, "m.new_content": odd}]
            for content in (odd, *contents):
                yield event | {"event_id": f"$odd-{next(numbers)}", "content": content}
            for name in ("type", "sender", "event_id", "origin_server_ts", "state_key"):
                yield event | {"event_id": f"$odd-{next(numbers)}", "content": {}, name: odd}


async def test_no_event_however_odd_keeps_the_listener_from_the_others(matrix: Scene) -> None:
    matrix.model.play(lambda body, number: Answer("After." if "and after" in str(body) else "Odd."))

    await matrix.sql("SELECT admin.set_channel_mode('matrix', :room, NULL, 'always')", room=matrix.room)
    await matrix.proxy.repeat(*odd_events(matrix.room, matrix.bob.id))
    await matrix.ann.says(matrix.direct, "and after that?")

    await matrix.hears("After.")
    # It was heard by the same connection: no event has ended it.
    assert sum("/whoami" in call.path for call in matrix.proxy.journal) == 1


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


async def test_a_thousand_invitations_keep_nobody_waiting(matrix: Scene) -> None:
    matrix.model.play([Answer("Here.")])
    rooms = [f"!{number}:elsewhere.test" for number in range(1000)]
    invitation = {"type": "m.room.member", "state_key": matrix.agent.id, "sender": matrix.bob.id}

    await matrix.proxy.invite([invitation | {"content": {"membership": "invite"}}], *rooms)
    await matrix.ann.says(matrix.direct, "are you there?")

    await matrix.hears("Here.")


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


async def test_who_led_the_agent_to_a_room_just_before_it_died_keeps_it_there_no_longer(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    bob, room = scene.bob, await make_room_of_bob(scene)
    elsewhere = await bob.makes_room(preset="public_chat")
    async with scene.opened(address, model, works=False):
        # What comes of the request is not seen any more.
        scene.proxy.faults.append(Fault("GET", "/sync", SILENCE))
        await scene.proxy.repeat(to_tombstone(room, bob.id, elsewhere))
        await bob.sees(partial(was_answered, bob, elsewhere, end="join"))

    async with scene.opened(address, model, works=False):
        await bob.sees(partial(was_answered, bob, elsewhere, end="leave"))


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


async def test_notices_of_a_database_that_begins_again_are_new_ones(matrix: Scene, owner: asyncpg.Connection) -> None:
    matrix.model.play([Answer("Hello."), Answer("Hello again.")])
    for answer in ("Hello.", "Hello again."):
        await owner.execute("TRUNCATE turns, inbox, outbox, conversations, budget_grants RESTART IDENTITY CASCADE")
        await matrix.ann.says(matrix.direct, "hello")
        await matrix.hears(answer)
        async with matrix.parley.app.database.transaction() as session:
            user_id = await matrix.value(
                "SELECT user_id FROM user_platform_links WHERE platform_user_id = :id", id=matrix.ann.id
            )
            notice = await to_notice(session, user_id, f"After {answer}", event_id="request:1")
            assert notice is not None
            await accept_within(session, notice)
        await matrix.hears(f"After {answer}")
