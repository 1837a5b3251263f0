"""kill -9 of who listens; that of who sends is in the contract of all platforms."""

from functools import partial
from pathlib import Path

import asyncpg
import pytest

from shared.db.database import Address
from tests.adapters.matrix.conftest import Scene
from tests.bench.children import running_child, until_one
from tests.standins.openai_api import OpenAIStub
from tests.support.chat_scene import child_environment
from tests.support.forks import get_command
from tests.support.homeserver_proxy import SENDING, SILENCE, SYNC, Fault

SAID = "SELECT content FROM inbox ORDER BY id"
# As it is some seconds after the process has died: nobody listens.
DEAD_LISTENER = "UPDATE chat_listeners SET leased_until = now() - interval '1 second'"


def environment(scene: Scene, address: Address, home: Path) -> dict[str, str]:
    return child_environment(scene.settings, address, home) | scene.environment() | {"SECRET_KEY": str(home)}


@pytest.mark.timeout(300)
async def test_messages_are_stored_once_whenever_the_listener_is_killed(
    scene: Scene, address: Address, model: OpenAIStub, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    env, proxy, ann = environment(scene, address, tmp_path), scene.proxy, scene.ann
    async with scene.opened(address, model, works=False):
        pass
    root = await ann.says(scene.room, "a question to Bob")
    reply = {"m.mentions": {"user_ids": [scene.agent.id]}, "m.relates_to": {"m.in_reply_to": {"event_id": root}}}
    await ann.says(scene.direct, "stored before its death")
    await ann.says(scene.room, "asked while it dies", **reply)
    # It dies with the second message in its hands, the first stored, and the mark where it was.
    proxy.faults.append(Fault("GET", f"/event/{root}", SILENCE))
    async with running_child(*get_command(), "adapter", "matrix", env=env) as listener:
        await proxy.until_silent()
        await until_one(owner, "SELECT count(*) FROM inbox")
        listener.kill()
        await listener.wait()
    await owner.execute(DEAD_LISTENER)

    async with scene.opened(address, model, works=False):
        await scene.until_value(2, "SELECT count(*) FROM inbox")
        await ann.says(scene.direct, "and then")
        await scene.until_value(3, "SELECT count(*) FROM inbox")
        stored = [row.content for row in await scene.sql(SAID)]
    assert sorted(stored) == ["and then", "asked while it dies", "stored before its death"]


async def test_a_command_whose_answer_is_on_its_way_when_the_connection_is_lost_is_answered_once(matrix: Scene) -> None:
    ann, proxy, direct = matrix.ann, matrix.proxy, matrix.direct
    proxy.faults.append(Fault("PUT", SENDING, SILENCE))
    await ann.says(direct, "!help")
    await proxy.until_silent()
    # As often as one request is repeated.
    proxy.faults.append(Fault("GET", SYNC, 500, times=3))
    await matrix.bob.says(matrix.world.bobs_direct, "!help")

    for person, room in ((ann, direct), (matrix.bob, matrix.world.bobs_direct)):
        await person.sees(partial(person.of, matrix.agent.id, room))
        assert len(person.of(matrix.agent.id, room)) == 1


async def test_a_command_that_runs_when_the_connection_is_lost_runs_to_its_end(
    matrix: Scene, owner: asyncpg.Connection
) -> None:
    ann, proxy, direct = matrix.ann, matrix.proxy, matrix.direct
    async with owner.transaction():
        await owner.execute("LOCK TABLE memories")
        await ann.says(direct, "!memory")
        await until_one(owner, "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'memories'::regclass")
        proxy.faults.append(Fault("GET", SYNC, 500, times=3))
        await matrix.bob.says(matrix.world.bobs_direct, "hello")
        await proxy.until(lambda: sum(call.path == SYNC and call.status == 500 for call in proxy.journal) == 3)

    await ann.sees(lambda: ann.of(matrix.agent.id, direct))
