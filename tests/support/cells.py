"""Two cells behind one door: a database and a worker each, and a web adapter that knows both."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from adapters.base import ChatPlatform
from adapters.cells.moves import Move, connected, move_server
from adapters.cells.routes import Cells
from adapters.web import serve
from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.web.conftest import NO_CERTIFICATES, TOKEN, say_it_back
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import connected as connected_as
from tests.support.databases import Databases
from tests.support.parley import Parley, open_parley
from tests.support.source_tree import list_measuring_variables

NAMES = ("a", "b")
SERVER = "guild"
# Those that tests take one after another, by cell.
CellDatabases = Mapping[str, Databases]


@dataclass
class TwoCells:
    """The addresses and Parleys of two cells, and a client of the door before them."""

    addresses: dict[str, Address]
    parleys: dict[str, Parley]
    cells: Cells
    client: httpx.AsyncClient

    async def post(self, event_id: str, content: str = "hello", **fields: object) -> httpx.Response:
        """Post a message of Ann in the channel general of the server, unless told otherwise."""
        body = {
            "platform": "test",
            "platform_user_id": "ann",
            "platform_server_id": SERVER,
            "platform_channel_id": "general",
            "platform_event_id": event_id,
            "content": content,
        }
        return await self.client.post("/v1/messages", json={**body, **fields})

    async def ask(self, event_id: str, content: str = "hello", **fields: object) -> str:
        """Post a message and return the text of its answer."""
        response = await self.post(event_id, content, **fields)
        assert response.status_code == 200, response.text
        text: str = response.json()["content"]
        return text

    async def begin_slow_turn(self) -> tuple[asyncio.Task[str], asyncio.Event]:
        """Begin a turn in cell a that answers "slow"; return the task that waits for it, and what lets it end."""
        model, has_begun, may_end = self.parleys["a"].model, asyncio.Event(), asyncio.Event()
        script = model.script

        async def wait(body: Any, number: int) -> Any:
            if "slow" in str(body["messages"][-1]["content"]):
                has_begun.set()
                await may_end.wait()
            return script(body, number)

        model.play(wait)
        slow = asyncio.create_task(self.ask("slow", "slow"))
        await has_begun.wait()
        return slow, may_end

    @asynccontextmanager
    async def moving(
        self, source: str = "a", target: str = "b", server: str = SERVER, *, platform: str = "test"
    ) -> AsyncIterator[Move]:
        """Open the connections of a move."""
        async with (
            connected(source, self.addresses[source]) as first,
            connected(target, self.addresses[target]) as second,
        ):
            yield Move(platform, server, source=first, target=second)

    async def move(self, source: str = "a", target: str = "b", server: str = SERVER) -> list[str]:
        """Move the server; return what the command says."""
        lines: list[str] = []
        async with self.moving(source, target, server) as move:
            await move_server(move, lines.append, seconds=60)
        return lines

    async def sql(self, cell: str, statement: str) -> list[Any]:
        """Run a statement in a cell as the owner of its tables, who sees all rows."""
        async with connected_as(self.addresses[cell]) as owner:
            await owner.execute("SET parley.rows = 'all'")
            return list(await owner.fetch(statement))

    async def until(self, cell: str, condition: str) -> None:
        """Return once a condition is true in a cell."""
        async with connected_as(self.addresses[cell]) as owner, asyncio.timeout(60):
            await owner.execute("SET parley.rows = 'all'")
            while not await owner.fetchval(condition):  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.02)

    async def until_stored(self, event_id: str) -> None:
        """Return once an event is in a cell; fails if it is in both."""
        stored = "SELECT FROM inbox WHERE platform_event_id = $1"
        async with connected_as(self.addresses["a"]) as first, connected_as(self.addresses["b"]) as second:
            async with asyncio.timeout(60):
                while not (  # noqa: ASYNC110  # it tells nobody
                    rows := [*await first.fetch(stored, event_id), *await second.fetch(stored, event_id)]
                ):
                    await asyncio.sleep(0.02)
        assert len(rows) == 1

    def environment(self, home: Path) -> dict[str, str]:
        """Return the settings of a program that knows both cells."""
        urls = [f"{name}={address.libpq(as_owner=True)}" for name, address in self.addresses.items()]
        return {
            "PARLEY_HOME": str(home),
            "CELLS": ",".join(urls),
            "SECRET_KEY": "shared",
            "API_TOKEN": TOKEN,
            **list_measuring_variables(),
        }

    async def until_routed(self, platform: str, server: str, *names: str) -> None:
        """Return once the door asks these cells for a server."""
        async with asyncio.timeout(60):
            while self.cells.find(platform, server) != names:  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.02)

    async def until_remembered(self, cell: str) -> None:
        """Return once the messages of all turns are memories."""
        await self.until(
            cell, "SELECT NOT EXISTS (SELECT FROM unremembered_turns) AND bool_and(is_indexed) FROM memories"
        )

    async def count(self, cell: str, table: str = "inbox") -> int:
        """Return how many rows a table of a cell has."""
        return int(await self.parleys[cell].value(f"SELECT count(*) FROM {table}"))  # noqa: S608  # a name of ours


def door_settings(settings: Settings) -> Settings:
    """Return the settings of a door on whatever port is free, and budgets that no test uses up."""
    return settings.model_copy(
        update={"api_token": SecretStr(TOKEN), "port": 0, "default_guest_token_budget": 1_000_000}
    )


@asynccontextmanager
async def numbered_databases(databases: CellDatabases) -> AsyncIterator[dict[str, Address]]:
    """Have a database for each cell."""
    async with AsyncExitStack() as closing:
        yield {name: await closing.enter_async_context(databases[name].one()) for name in NAMES}


Build = Callable[[], ChatPlatform | Sequence[ChatPlatform]]


def _list_senders(build: Build | None) -> dict[str, ChatPlatform] | None:
    if build is None:
        return None
    platforms = build()
    platforms = [platforms] if isinstance(platforms, ChatPlatform) else platforms
    return {platform.name: platform for platform in platforms}


@asynccontextmanager
async def open_cells(
    settings: Settings, databases: CellDatabases, model: OpenAIStub, build: Build | None = None
) -> AsyncIterator[TwoCells]:
    """Open both cells with a worker each, and a door; each sends by platforms of its own that `build` makes."""
    model.play(say_it_back)
    async with AsyncExitStack() as closing:
        addresses = await closing.enter_async_context(numbered_databases(databases))
        parleys = {
            name: await closing.enter_async_context(open_parley(settings, address, model, senders=_list_senders(build)))
            for name, address in addresses.items()
        }
        cells = Cells(NAMES)
        for name, parley in parleys.items():
            await cells.add(name, parley.app)
        address: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(
            serve(parleys["a"].app, lambda *where: address.set_result(where), cells=cells), name="door"
        )
        try:
            host, port = await address
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with httpx.AsyncClient(
                base_url=f"http://{host}:{port}", headers=headers, timeout=60, verify=NO_CERTIFICATES
            ) as client:
                yield TwoCells(addresses, parleys, cells, client)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await cells.aclose()
