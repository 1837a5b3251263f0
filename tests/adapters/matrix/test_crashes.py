"""kill -9 of who listens; that of who sends is in the contract of all platforms."""

from pathlib import Path

import asyncpg
import pytest

from shared.db.database import Address
from tests.adapters.matrix.conftest import Scene
from tests.bench.children import running_child, until_one
from tests.standins.openai_api import OpenAIStub
from tests.support.chat_scene import child_environment
from tests.support.forks import get_command
from tests.support.homeserver_proxy import SILENCE, Fault

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
