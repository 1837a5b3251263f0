"""What Matrix promises when processes die, servers are away and strangers write, at a real homeserver."""

import asyncio
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from adapters.matrix.incoming import list_files
from adapters.matrix.platform import MatrixPlatform
from shared.db.database import Address
from tests.adapters.matrix.conftest import Scene
from tests.bench.children import running_child
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import child_environment
from tests.support.forks import get_command
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
        await scene.until(61, "SELECT count(*) FROM inbox")
        await scene.until(0, "SELECT count(*) FROM inbox WHERE status <> 'answered'")
        assert [row.content for row in await scene.parley.sql(SAID)] == ["hello", *texts]


async def test_a_reply_whose_worker_died_after_sending_it_is_shown_once(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Only once."), Answer("Next.")])
    async with scene.opened(address, model):
        await scene.ann.says(scene.direct, "hello")
        await scene.hears("Only once.")
        await scene.until(1, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
        await scene.parley.sql(FORGET_DELIVERY)
        await scene.until(1, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
        await scene.ann.says(scene.direct, "next")
        await scene.hears("Next.")

    assert scene.ann.texts(scene.agent.id, scene.direct) == ["Only once.", "Next."]


@pytest.mark.timeout(300)
async def test_an_answer_goes_on_in_the_same_message_when_its_worker_is_killed(
    scene: Scene, address: Address, model: OpenAIStub, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    env = child_environment(scene.settings, address, tmp_path)
    env |= {
        "MATRIX_HOMESERVER": scene.homeserver.address,
        "MATRIX_TOKEN": scene.agent.token,
        "MATRIX_INVITES": "all",
    }
    model.play([Answer("One two three four five six seven.", end=asyncio.Event()), Answer("All seven.")])
    async with (
        running_child(*get_command(), "adapter", "matrix", env=env),
        running_child(*get_command(), "worker", env=env) as first,
    ):
        while not await owner.fetchval("SELECT count(*) FROM chat_listeners WHERE mark IS NOT NULL"):
            await owner.execute("SELECT pg_sleep(0.05)")
        await scene.ann.says(scene.direct, "count")
        await scene.ann.sees(lambda: scene.ann.of(scene.agent.id, scene.direct), 90)
        (live,) = scene.ann.of(scene.agent.id, scene.direct)
        while await owner.fetchval("SELECT live_message_id FROM turns") is None:
            await owner.execute("SELECT pg_sleep(0.05)")
        first.kill()
        await first.wait()
        await owner.execute("DELETE FROM workers")
        async with running_child(*get_command(), "worker", env=env):
            assert await scene.hears("All seven.") == live["event_id"]
    assert scene.ann.texts(scene.agent.id, scene.direct) == ["All seven."]


async def test_one_of_two_listeners_listens_and_the_other_follows(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("First."), Answer("Second.")])
    async with scene.opened(address, model) as first:
        second = MatrixPlatform(scene.own)
        await second.open(first.parley.app)
        listener = asyncio.create_task(second.listen(first.parley.app))
        try:
            await scene.ann.says(scene.direct, "one")
            await scene.hears("First.")
            holder = await first.parley.value("SELECT holder FROM chat_listeners")
            # As if the one that listens had been frozen: its lease has ended.
            await first.parley.sql("UPDATE chat_listeners SET leased_until = now() - interval '1 second'")
            await first.until(1, f"SELECT count(*) FROM chat_listeners WHERE holder <> '{holder}'")  # noqa: S608  # its own
            await scene.ann.says(scene.direct, "two")
            await scene.hears("Second.")
        finally:
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)
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


def was_answered(person: Person, room: str, *, end: str) -> bool:
    """Return whether the membership of somebody in the room came to this end."""
    return end in [
        event["content"]["membership"]
        for event in person.events
        if (event["type"], event["room_id"]) == ("m.room.member", room) and event["state_key"] != person.id
    ]


async def test_the_doctor_names_the_account_and_a_refused_token(scene: Scene) -> None:
    findings = [finding async for finding in MatrixPlatform(scene.own).examine(scene.settings)]
    assert [(finding.level, finding.text) for finding in findings] == [
        ("ok", f"the token is {scene.agent.id}'s, at {scene.homeserver.address}"),
        ("ok", "rooms: 2"),
    ]


def test_nobody_chooses_another_path_of_the_homeserver_by_the_address_of_a_file() -> None:
    for url in ("mxc://../x", "mxc://a/../b", "mxc://a/b/c", "mxc://a?b/c", "https://a/b", None, {"a": 1}):
        assert list_files({"msgtype": "m.file", "body": "x", "url": url}, "https://hs") == ()
