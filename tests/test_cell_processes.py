"""Two cells as an operator runs them: a worker for each, a door before both, and a server that moves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE

import httpx

from shared.settings import Settings
from tests.adapters.web.conftest import TOKEN, say_it_back
from tests.standins.openai_api import OpenAIStub
from tests.support.cells import SERVER, CellDatabases, numbered_databases
from tests.support.chat_scene import child_environment
from tests.support.connections import connected
from tests.support.eventually import PATIENCE
from tests.support.forks import get_command
from tests.support.serving import read_address
from tests.support.source_tree import ROOT


@asynccontextmanager
async def running(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command of Parley for the block."""
    process = await asyncio.create_subprocess_exec(
        *get_command(),
        *arguments,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "API_TOKEN": TOKEN, **environment},
        stdout=PIPE,
        stderr=DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ask(client: httpx.AsyncClient, number: int, server: str = SERVER) -> str:
    """Post a message of one of five people, each in a channel of their own, and return the answer."""
    body = {
        "platform": "test",
        "platform_user_id": f"p{number % 5}",
        "platform_server_id": server,
        "platform_channel_id": f"c{number % 5}",
        "platform_event_id": f"{server}-{number}",
        "content": f"{number}",
    }
    response = await client.post("/v1/messages", json=body)
    assert response.status_code == 200, response.text
    return str(response.json()["content"]).rpartition(" ")[2]


async def test_a_door_routes_by_server_while_one_moves_between_real_processes(
    settings: Settings, cell_databases: CellDatabases, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(say_it_back)
    async with AsyncExitStack() as closing:
        addresses = await closing.enter_async_context(numbered_databases(cell_databases))
        for address in addresses.values():
            await closing.enter_async_context(running("worker", **child_environment(settings, address, tmp_path)))
        urls = [f"{name}={address.libpq(as_owner=True)}" for name, address in addresses.items()]
        (tmp_path / "cells").write_text("\n".join(urls))
        known = {**child_environment(settings, addresses["a"], tmp_path), "CELLS": str(tmp_path / "cells"), "PORT": "0"}
        door = await closing.enter_async_context(running("adapter", "web", **known))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        client = await closing.enter_async_context(
            httpx.AsyncClient(base_url=await read_address(door), headers=headers, timeout=PATIENCE)
        )

        async def write(person: int) -> list[str]:
            return [await ask(client, number) for number in range(person, 40, 5)]

        await ask(client, 1000, "stays")
        writing = asyncio.gather(*(write(person) for person in range(5)))
        async with running("server", "move", "test", SERVER, "--to", "b", "--yes", **known) as mover:
            out, _ = await mover.communicate()
        assert "test guild lives in b now" in out.decode()
        answers = {answer for person in await writing for answer in person}
        assert answers == {f"{number}" for number in range(40)}

        ready = (await client.get("/readyz")).json()
        assert ready == {"status": "ready", "cells": {"a": {"workers": 1}, "b": {"workers": 1}}}
        for address, count in zip(addresses.values(), (1, 40), strict=True):
            async with connected(address) as owner:
                assert await owner.fetchval("SELECT count(*) FROM inbox WHERE status = 'answered'") == count
        assert len(model.requests) == 41
