"""The door, both workers and whoever moves a workspace are killed at any step: each message is answered once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from adapters.cells.routes import Cells
from adapters.slack.install.installations import Vault
from shared.db.database import Address
from tests.adapters.slack.conftest import Scene
from tests.adapters.web.conftest import say_it_back
from tests.bench.children import running_child
from tests.standins.openai_api import OpenAIStub
from tests.standins.slack import Admin
from tests.standins.slack.world import Installation
from tests.support.cells import NAMES, CellDatabases, TwoCells, numbered_databases
from tests.support.chat_scene import child_environment
from tests.support.connections import connected
from tests.support.forks import get_command
from tests.support.killed_moves import POINTS, Point, killed_at, start_mover
from tests.support.serving import read_address

INSTALL = """
INSERT INTO slack_installations (team_id, team_name, bot_id, bot_user_id, token)
SELECT $1, $2, $3, $4, $5 FROM parley_note_server('slack', $1, $2)
"""
# Every point, and each transport at two of them.
AT = list(zip(POINTS, (False, True, False, True), strict=True))
DEAD_WORKERS = "UPDATE workers SET last_heartbeat = now() - interval '1 hour'"


async def install(address: Address, installation: Installation) -> str:
    """Store that the app is installed in a workspace, as the page of the door does; return the workspace's id."""
    team, bot = installation.team, installation.bot
    token = Vault(["shared"]).encrypt(team["id"], installation.token)
    async with connected(address) as owner:
        await owner.execute(INSTALL, team["id"], team["name"], installation.bot_id, bot["id"], token)
    return str(team["id"])


def to_question(answer: str) -> str:
    """Return what was said, without what others had said before."""
    return answer.partition("\n")[0].removeprefix("You said: fred: ")


@asynccontextmanager
async def started(
    scene: Scene, cells: TwoCells, home: Path, *, by_http: bool
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Start a worker for each cell, and a door that listens by a socket, or takes requests."""
    slack = scene.slack
    own = slack.environment() | {
        "SLACK_CLIENT_ID": slack.client_id,
        "SLACK_CLIENT_SECRET": slack.client_secret,
        "DEFAULT_GUEST_TOKEN_BUDGET": "1000000",
    }
    first, second = (child_environment(scene.settings, cells.addresses[name], home) | own for name in NAMES)
    door = first | {"CELLS": cells.environment(home)["CELLS"], "PORT": "0"}
    if by_http:
        door["SLACK_SIGNING_SECRET"] = slack.signing_secret
        del door["SLACK_APP_TOKEN"]
    async with (
        running_child(*get_command(), "worker", env=first) as one,
        running_child(*get_command(), "worker", env=second) as other,
        running_child(*get_command(), "adapter", "web" if by_http else "slack", env=door) as listener,
    ):
        if by_http:
            await slack.delivery.deliver_to(f"{await read_address(listener)}/slack/events")
        else:
            await slack.socket.until()
        yield [one, other, listener]


async def kill(cells: TwoCells, processes: list[asyncio.subprocess.Process]) -> None:
    """Kill them; their turns are others' at once."""
    for process in processes:
        process.kill()
    await asyncio.gather(*(process.wait() for process in processes))
    for address in cells.addresses.values():
        async with connected(address) as owner:
            await owner.execute(DEAD_WORKERS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("at", "by_http"), AT, ids=[f"{point.__name__}-{by_http}" for (_, point), by_http in AT])
async def test_messages_of_a_workspace_are_answered_once_whoever_dies_while_it_moves(
    scene: Scene, cell_databases: CellDatabases, model: OpenAIStub, at: tuple[str, Point], by_http: bool, tmp_path: Path
) -> None:
    slack = scene.slack
    slack.delivery.retry_delays, slack.delivery.ack_seconds = (0.2,) * 1000, 5.0
    model.play(say_it_back)
    installation = slack.world.install(slack.world.add_team("Lake"))
    fred = Admin(slack, "Fred", team=installation.team)
    pier = slack.world.add_channel("pier", installation.team)
    async with numbered_databases(cell_databases) as addresses, httpx.AsyncClient() as client:
        cells = TwoCells(addresses, {}, Cells(NAMES), client)
        server = ("slack", await install(addresses["a"], installation))
        async with started(scene, cells, tmp_path, by_http=by_http) as processes:
            await fred.mentions(pier, "before")
            await fred.hears(pier)
            await cells.until_remembered("a")
            async with killed_at(cells, tmp_path, at, server=server):
                during = [asyncio.create_task(fred.mentions(pier, f"during {number}")) for number in range(3)]
                await slack.until(lambda: len(slack.journal.envelopes) > 2)
                await kill(cells, processes)
                await slack.socket.until_gone()
                during.append(asyncio.create_task(fred.mentions(pier, "while nobody listens")))
        async with started(scene, cells, tmp_path, by_http=by_http):
            out, err = await (await start_mover(cells, tmp_path, server=server)).communicate()
            assert "lives in b now" in out.decode(), err.decode()
            await asyncio.gather(*during)
            await fred.mentions(pier, "after")
            await cells.until("b", "SELECT count(*) = 6 FROM inbox WHERE status = 'answered'")
            await cells.until("b", "SELECT bool_and(status = 'delivered') FROM outbox")

        texts = ["after", "before", *(f"during {number}" for number in range(3)), "while nobody listens"]
        assert sorted(map(to_question, fred.reads(pier))) == texts
        assert await cells.sql("a", "SELECT id FROM inbox UNION ALL SELECT id FROM slack_installations") == []
        assert len(await cells.sql("b", "SELECT FROM slack_installations WHERE token IS NOT NULL")) == 1
