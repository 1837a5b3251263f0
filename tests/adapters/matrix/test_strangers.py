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

from adapters.api_client import AnswerTooLarge
from adapters.base import stay_up
from adapters.chat.parts import Post
from adapters.chat.posting import PostingPlatform
from adapters.matrix.client import Client
from adapters.matrix.incoming import to_sent_at
from adapters.matrix.platform import to_content
from adapters.matrix.settings import MatrixSettings
from agent.commands.grants.people import to_notice
from agent.queue.inbox import accept_within
from shared.db.database import Address
from shared.errors import Unavailable
from shared.messages import Place
from tests.adapters.matrix.conftest import Scene
from tests.adapters.matrix.test_promises import was_answered
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.stand_in import ChatStandIn
from tests.support.connections import begin_again
from tests.support.eventually import PATIENCE
from tests.support.homeserver_proxy import HISTORY, SILENCE, Fault

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
    message = await bob.says(room, "what I say to Ann")
    await ann.call("POST", "rooms", room, "kick", body={"user_id": bob.id})

    async with scene.opened(address, model, works=False):
        await scene.until_taken(message)
        await ann.says(room, "now we are")
        await scene.until_value(True, "SELECT count(*) > 0 FROM inbox")
        assert await scene.sql(SAID) == [("now we are",)]


async def test_who_was_put_out_of_a_room_of_which_a_part_can_not_be_read_has_not_spoken_to_the_agent_alone(
    matrix: Scene,
) -> None:
    ann, bob, room = matrix.ann, matrix.bob, matrix.direct
    facts = {"room_id": room, "origin_server_ts": int(time.time() * 1000)}
    message = facts | {"event_id": "$said", "type": "m.room.message", "sender": bob.id}
    message |= {"content": {"msgtype": "m.text", "body": "what I say to Ann"}}
    ban = facts | {"event_id": "$gone", "type": "m.room.member", "sender": ann.id}
    ban |= {"state_key": bob.id, "content": {"membership": "ban"}}
    matrix.proxy.missed = [message]
    matrix.proxy.refuse("GET", HISTORY)

    await matrix.proxy.repeat(message, ban)
    matrix.proxy.missed = []
    await ann.says(room, "now we are")

    await matrix.until_value("now we are", "SELECT content FROM inbox ORDER BY id DESC LIMIT 1")
    assert await matrix.sql(SAID) == [("now we are",)]


async def test_what_holds_in_a_room_is_not_what_is_read_last_of_a_part_that_was_left_out(matrix: Scene) -> None:
    # A server says how deep its events are: that of a moderator who was put down meanwhile comes last.
    ann, bob, agent = matrix.ann, matrix.bob, matrix.agent
    facts = {"room_id": matrix.room, "origin_server_ts": int(time.time() * 1000)}
    levels = facts | {"type": "m.room.power_levels", "sender": ann.id, "state_key": ""}
    before, now = [
        levels | {"event_id": f"$level-{level}", "content": {"users": {ann.id: 100, bob.id: level}}}
        for level in (100, 0)
    ]
    message = facts | {"event_id": "$said", "type": "m.room.message", "sender": bob.id}
    message |= {"content": {"msgtype": "m.text", "body": "hello", "m.mentions": {"user_ids": [agent.id]}}}
    matrix.proxy.missed, matrix.proxy.settled = [now, before], [now]

    await matrix.proxy.repeat(message)

    await matrix.until_value("hello", "SELECT content FROM inbox")
    assert await matrix.value("SELECT platform_context -> 'roles' FROM inbox") is None


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
        client = Client(MatrixSettings(liar.base))
        calls = [client.call("GET", (kind,)) for kind in ("elsewhere", "deep", "endless")]
        errors = await asyncio.gather(*calls, return_exceptions=True)
        await client.aclose()
    assert [type(error) for error in errors] == [Unavailable, Unavailable, AnswerTooLarge]
    assert issubclass(AnswerTooLarge, Unavailable)


@pytest.mark.parametrize("wait", [-5, "for ever", [], float("inf")])
def test_a_wait_that_is_none_is_a_second(wait: object) -> None:
    assert Client(MatrixSettings("https://hs")).find_pause({"retry_after_ms": wait}) == 1


async def test_a_platform_that_was_away_for_long_is_asked_again_soon() -> None:
    starts = 0

    async def start() -> None:
        nonlocal starts
        starts += 1
        if starts < 20:
            raise Unavailable("away")
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE):
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
    # Hundreds are looked up, one after the other; how long that takes is the homeserver's.
    matrix.proxy.latency = 0

    await matrix.sql("SELECT admin.set_channel_mode('matrix', :room, NULL, 'always')", room=matrix.room)
    await matrix.proxy.repeat(*odd_events(matrix.room, matrix.bob.id))
    await matrix.ann.says(matrix.direct, "and after that?")

    await matrix.hears("After.")
    # It was heard by the same connection: no event has ended it.
    assert sum("/whoami" in call.path for call in matrix.proxy.journal) == 1


async def test_a_thousand_invitations_keep_nobody_waiting(matrix: Scene) -> None:
    matrix.model.play([Answer("Here.")])
    rooms = [f"!{number}:elsewhere.test" for number in range(1000)]
    invitation = {"type": "m.room.member", "state_key": matrix.agent.id, "sender": matrix.bob.id}

    await matrix.proxy.invite([invitation | {"content": {"membership": "invite"}}], *rooms)
    await matrix.ann.says(matrix.direct, "are you there?")

    await matrix.hears("Here.")


async def test_an_invitation_of_a_stranger_keeps_no_other_waiting_for_a_look_up(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, bob, agent, proxy, scene.invites = scene.ann, scene.bob, scene.agent, scene.proxy, scene.ann.id
    async with scene.opened(address, model, works=False):
        word = await bob.says(scene.room, "a word")
        proxy.faults.append(Fault("GET", f"/event/{word}", SILENCE, times=1000))
        await bob.edits(scene.room, word, "another word")
        await proxy.until_silent()
        invitation = {"type": "m.room.member", "state_key": agent.id, "content": {"membership": "invite"}}
        hosts = {"!elsewhere:matrix.test": bob.id, "!here:matrix.test": ann.id}
        await asyncio.gather(*[proxy.invite([invitation | {"sender": hosts[room]}], room) for room in hosts])
        await proxy.until(lambda: any("/join/!here" in call.path for call in proxy.journal))


async def test_notices_of_a_database_that_begins_again_are_new_ones(matrix: Scene, owner: asyncpg.Connection) -> None:
    matrix.model.play([Answer("Hello."), Answer("Hello again.")])
    for answer in ("Hello.", "Hello again."):
        await begin_again(owner)
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
