"""Four workers behind PgBouncer, kills, and a primary that dies: each message is answered, none twice."""

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from shared.settings import Settings
from tests.shared.db.test_pooled_workers import working
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.connections import connected
from tests.support.parley import Parley, open_parley
from tests.support.pgbouncer import running_pooler
from tests.support.processes import list_children
from tests.support.replicas import make_server, replicas, server_folder
from tests.test_failover import store

pytestmark = pytest.mark.soak
WORKERS, PEOPLE, MESSAGES, KILLS = 4, 20, 15, 6


async def test_four_workers_survive_kills_and_a_failover_behind_a_pooler(
    settings: Settings, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(echo)
    with server_folder() as folder:
        template = await make_server(folder)
        async with (
            replicas(template, is_synchronous=True) as pair,
            running_pooler(pair.first.address, "transaction", default_pool_size=8) as pooler,
        ):
            address = replace(pair.address, pooler=pooler.address.url)
            async with (
                open_parley(settings, address, model, works=False) as parley,
                working(settings, address, tmp_path, WORKERS) as pid,
            ):
                talking = [asyncio.create_task(talk(parley, person)) for person in range(PEOPLE)]
                killing = asyncio.create_task(kill_workers(pid))
                await model.until(PEOPLE * MESSAGES // 2)
                await pair.fail_over()
                pooler.lead_to(pair.second.address)
                await asyncio.gather(*talking, killing)
            async with connected(pair.second.address) as owner:
                assert await owner.fetchval("SELECT count(*) FROM inbox WHERE status <> 'answered'") == 0
                assert await owner.fetchval("SELECT sum(lost_answers + lost_messages) FROM database_histories") == 0
                assert await owner.fetchval("SELECT count(*) FROM turns WHERE status <> 'answered'") == 0


async def echo(body: Body, _number: int) -> Answer:
    await asyncio.sleep(0.2)
    return Answer(f"re: {last_user_text(body).partition(chr(10))[0]}")


async def talk(parley: Parley, person: int) -> None:
    """Write one message after the other, each when the one before has its answer."""
    for number in range(MESSAGES):
        text = f"{number} of {person}"
        accepted = await store(parley, text, user=f"person {person}", adapter="http")
        response = await parley.app.events.response(accepted.inbox_id)
        assert response.content == f"re: {text}"


async def kill_workers(pid: int) -> None:
    """Kill one worker after another, which the one that watches them starts again."""
    chance = random.Random(26)  # noqa: S311  # the same pauses in each run
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(1, 4))
        os.kill(chance.choice(list_children(pid)), signal.SIGKILL)
