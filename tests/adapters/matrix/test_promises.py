"""What Matrix promises when processes die, servers are away and strangers write, at a real homeserver."""

import asyncio
from dataclasses import replace
from functools import partial

import asyncpg
from pydantic import SecretStr

from adapters.cli.platforms import examine
from adapters.matrix.incoming import list_files
from adapters.matrix.listening import DECLINED
from adapters.matrix.platform import MatrixPlatform
from shared.db.database import Address
from tests.adapters.matrix.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import DIES_BEFORE_ITS_NOTE_IS_REMOVED
from tests.support.synapse import Person

SAID = "SELECT content FROM inbox ORDER BY id"
# A row as a worker leaves it that dies after the homeserver has taken the reply, and before it has noted that.
FORGET_DELIVERY = (
    "UPDATE outbox SET status = 'pending', delivered_at = NULL, platform_message_id = NULL, claimed_until = now()"
)


async def test_what_was_missed_is_answered_in_order_however_much_it_is(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Before.")] + [Answer("After.")] * 70)
    async with scene.opened(address, model):
        await scene.ann.says(scene.direct, "hello")
        await scene.hears("Before.")
    # More than a timeline holds: the homeserver leaves some out, which are read from the history.
    texts = [f"number {number}" for number in range(60)]
    for text in texts:
        await scene.ann.says(scene.direct, text)

    async with scene.opened(address, model):
        await scene.until_value(61, "SELECT count(*) FROM inbox")
        await scene.until_value(0, "SELECT count(*) FROM inbox WHERE status <> 'answered'")
        assert [row.content for row in await scene.parley.sql(SAID)] == ["hello", *texts]


async def test_one_of_two_listeners_listens_and_the_other_follows(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("First."), Answer("Second.")])
    async with scene.opened(address, model) as first:
        second = MatrixPlatform(scene.own)
        await second.open(first.parley.app)
        waiting = asyncio.create_task(second.listen(first.parley.app))
        try:
            await scene.ann.says(scene.direct, "one")
            await scene.hears("First.")
            holder = await first.parley.value("SELECT holder FROM chat_listeners")
            # As if the one that listens had been frozen: its lease has ended.
            await first.parley.sql("UPDATE chat_listeners SET leased_until = now() - interval '1 second'")
            await first.until_value(1, f"SELECT count(*) FROM chat_listeners WHERE holder <> '{holder}'")  # noqa: S608  # its own
            await scene.ann.says(scene.direct, "two")
            await scene.hears("Second.")
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await second.aclose()
        assert await first.parley.sql(SAID) == [("one",), ("two",)]


async def test_invitations_of_strangers_are_declined_and_those_of_admins_accepted(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    ann, bob, agent = scene.ann, scene.bob, scene.agent
    model.play([Answer("Hi.")])
    scene.invites = "admins"
    async with scene.opened(address, model):
        await ann.says(scene.direct, "hello")
        await scene.hears("Hi.")
        await scene.parley.sql("UPDATE users SET permission_level = 'admin'")
        for person, end in ((bob, "leave"), (ann, "join")):
            room = await person.makes_room(agent.id)
            await person.sees(partial(was_answered, person, room, end=end))
            reasons = [event["content"].get("reason") for event in person.of(agent.id, room, "m.room.member")]
            assert (reasons == [DECLINED]) == (end == "leave")


def was_answered(person: Person, room: str, *, end: str) -> bool:
    """Return whether the membership of somebody in the room came to this end."""
    return end in [
        event["content"]["membership"]
        for event in person.events
        if (event["type"], event["room_id"]) == ("m.room.member", room) and event["state_key"] != person.id
    ]


async def test_a_choice_by_a_reaction_takes_effect_once_however_often_it_is_read(
    matrix: Scene, owner: asyncpg.Connection
) -> None:
    ann, agent, direct = matrix.ann, matrix.agent, matrix.direct
    matrix.model.play([Answer("Hi."), Answer("Here.")])
    await ann.says(direct, "hello")
    await matrix.hears("Hi.")
    await owner.execute("INSERT INTO memories (user_id, scope, content) SELECT id, 'private', 'boats' FROM users")
    await ann.says(direct, "!memory forget all")
    await ann.sees(lambda: ann.of(agent.id, direct, "m.reaction"))
    question = ann.of(agent.id, direct)[-1]["event_id"]
    await matrix.until_value(1, "SELECT count(*) FROM outbox")
    await owner.execute(DIES_BEFORE_ITS_NOTE_IS_REMOVED)
    relation = {"rel_type": "m.annotation", "event_id": question, "key": "✅"}
    reaction = await ann.sends(direct, "m.reaction", {"m.relates_to": relation})
    await ann.sees(lambda: len(ann.of(agent.id, direct)) == 3)
    await matrix.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    event = await ann.call("GET", "rooms", direct, "event", reaction)

    assert "forgotten" in ann.texts(agent.id, direct)[-1].lower()
    # As a process reads it that follows one which has died before it noted the mark.
    matrix.proxy.forget_transactions()
    await matrix.proxy.repeat(event, event)
    await ann.says(direct, "and now?")
    await matrix.hears("Here.")

    assert len(ann.of(agent.id, direct)) == 4


async def test_the_doctor_names_the_account_and_a_refused_token(scene: Scene) -> None:
    findings = [finding async for finding in examine(MatrixPlatform(scene.own), scene.settings)]
    assert [finding.level for finding in findings] == ["ok", "ok"]
    assert findings[0].text == f"the token is {scene.agent.id}'s, at {scene.proxy.base}"
    assert findings[1].text.startswith("rooms: ")
    revoked = MatrixPlatform(replace(scene.own, token=SecretStr("syt_revoked")))
    (finding,) = [finding async for finding in examine(revoked, scene.settings)]
    assert (finding.level, "`parley setup` asks for its address, and makes another token" in finding.text) == (
        "fail",
        True,
    )
    # The homeserver's own words, no part of which is taken for a secret.
    assert "nvalid access token passed (M_UNKNOWN_TOKEN)." in finding.text


async def test_the_doctor_names_what_is_misspelt_in_the_rule_of_invitations(scene: Scene) -> None:
    rule = "admin, @ann, @ann:hs, *:hs, admins, all, "
    platform = MatrixPlatform(replace(scene.own, invites=rule))
    texts = [finding.text async for finding in examine(platform, scene.settings) if finding.level == "warn"]
    assert texts == [f"MATRIX_INVITES names {name}, which is no account and no *:server" for name in ("@ann", "admin")]


async def test_the_doctor_names_the_rooms_that_it_can_not_read(scene: Scene) -> None:
    cipher, scene.world.is_spoilt = {"algorithm": "m.megolm.v1.aes-sha2"}, True
    await scene.ann.call("PUT", "rooms", scene.room, "state", "m.room.encryption", "", body=cipher)

    *_, finding = [finding async for finding in examine(MatrixPlatform(scene.own), scene.settings)]

    assert (finding.level, finding.text) == ("warn", f"{scene.room} is encrypted: nothing is answered there")


async def test_the_doctor_names_a_way_to_the_homeserver_on_which_others_read_along(scene: Scene) -> None:
    far = MatrixPlatform(replace(scene.own, homeserver="http://localhost.invalid:8008"))
    warning, failure = [finding async for finding in examine(far, scene.settings)]
    assert (warning.level, "read token" in warning.text) == ("warn", True)
    assert (failure.level, failure.is_outage) == ("fail", True)


def test_nobody_chooses_another_path_of_the_homeserver_by_the_address_of_a_file() -> None:
    for url in ("mxc://../x", "mxc://a/../b", "mxc://a/b/c", "mxc://a?b/c", "https://a/b", None, {"a": 1}):
        assert list_files({"msgtype": "m.file", "body": "x", "url": url}, "https://hs") == ()
