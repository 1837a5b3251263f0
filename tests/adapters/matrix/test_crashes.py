"""kill -9 of who sends and of who listens, at each step."""

from pathlib import Path

import asyncpg
import pytest

from shared.db.database import Address
from tests.adapters.matrix.conftest import Scene
from tests.bench.children import running_child, until_one
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import child_environment
from tests.support.forks import get_command
from tests.support.homeserver_proxy import SENDING, SILENCE, Fault

SAID = "SELECT content FROM inbox ORDER BY id"
# As it is some seconds after the process has died: nobody holds the reply, nobody listens.
DEAD_WORKER = "DELETE FROM workers"
DEAD_LISTENER = "UPDATE chat_listeners SET leased_until = now() - interval '1 second'"


def environment(scene: Scene, address: Address, home: Path) -> dict[str, str]:
    return child_environment(scene.settings, address, home) | scene.environment() | {"SECRET_KEY": str(home)}


@pytest.mark.timeout(300)
async def test_a_reply_is_shown_once_whenever_its_worker_is_killed(
    scene: Scene, address: Address, model: OpenAIStub, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    env, proxy = environment(scene, address, tmp_path), scene.proxy
    model.play([Answer("Only once.")])
    async with scene.opened(address, model, works=False):
        await scene.ann.says(scene.direct, "hello")
        await scene.until_value(1, "SELECT count(*) FROM inbox")
    # The first dies before the homeserver has the message, the second after it, before it knows the message's id.
    for number, after in enumerate((False, True), 1):
        proxy.faults.append(Fault("PUT", SENDING, SILENCE, after=after))
        async with running_child(*get_command(), "worker", env=env) as worker:
            await proxy.until_silent(number)
            worker.kill()
            await worker.wait()
        await owner.execute(DEAD_WORKER)
        await owner.execute("UPDATE outbox SET claimed_until = now()")

    async with running_child(*get_command(), "worker", env=env):
        await until_one(owner, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

    await scene.hears("Only once.")
    assert scene.ann.texts(scene.agent.id, scene.direct) == ["Only once."]
    assert len(model.requests) == 1


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
