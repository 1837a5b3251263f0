"""A primary and its standby, of which a pooler knows one: it may lead to another server than the direct address."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from adapters.web.health import find_obstacle
from shared.db.database import DatabaseLost
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley, open_parley
from tests.support.pgbouncer import pooled
from tests.support.replicas import Replicas, Server, make_server, replicas, server_folder


@pytest.fixture(scope="module")
def template() -> Iterator[Server]:
    """A stopped server with all tables."""
    with server_folder() as folder:
        yield asyncio.run(make_server(folder))


@asynccontextmanager
async def opened(template: Server, settings: Settings, model: OpenAIStub) -> AsyncIterator[tuple[Replicas, Parley]]:
    """Run Parley on both servers, its statements by a pooler before the first one."""
    model.play(lambda _body, _number: Answer("Hello."))
    async with (
        replicas(template, is_synchronous=False) as pair,
        pooled(pair.first.address, "transaction") as through,
        open_parley(settings, replace(pair.address, pooler=through.url), model) as parley,
        asyncio.timeout(60),
    ):
        assert (await parley.ask("hello")).content == "Hello."
        yield pair, parley


async def until_ready(parley: Parley, obstacle: str | None) -> None:
    """Return when this alone keeps messages from being accepted."""
    while True:
        reason = await find_obstacle(parley.app)
        if reason == obstacle or (obstacle and reason and obstacle in reason):
            return
        await asyncio.sleep(0.05)


async def test_a_pooler_that_leads_to_a_server_that_was_left_behind_is_not_used(
    template: Server, settings: Settings, model: OpenAIStub
) -> None:
    async with opened(template, settings, model) as (pair, parley):
        # The first one goes on, and takes writes: nobody has stopped it.
        await pair.second.control("promote")
        await until_ready(parley, "timeline 1, not 2")
        with pytest.raises(DatabaseLost):
            await parley.accept("hello")
        # It comes back as a standby, and is promoted when the other one dies.
        await pair.first.kill()
        await pair.first.follow(pair.second)
        await until_ready(parley, "its server takes no writes")
        await pair.second.kill()
        await pair.first.control("promote")
        await until_ready(parley, None)
        assert (await parley.ask("hello")).content == "Hello."
