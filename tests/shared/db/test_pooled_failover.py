"""A primary and its standby, of which a pooler knows one: it may lead to another server than the direct address."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from msgspec.structs import replace

from adapters.web.health import find_obstacle
from shared.db.database import DatabaseLost
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.connections import connected
from tests.support.parley import Parley, open_parley
from tests.support.pgbouncer import Pooler, running_pooler
from tests.support.replicas import Replicas, Server, make_server, replicas, server_folder


@pytest.fixture(scope="module")
def template() -> Iterator[Server]:
    """A stopped server with all tables."""
    with server_folder() as folder:
        yield asyncio.run(make_server(folder))


@asynccontextmanager
async def opened(
    template: Server, settings: Settings, model: OpenAIStub
) -> AsyncIterator[tuple[Replicas, Pooler, Parley]]:
    """Run Parley on both servers, its statements by a pooler before the first one."""
    model.play(lambda _body, _number: Answer("Hello."))
    async with (
        replicas(template, is_synchronous=False) as pair,
        running_pooler(pair.first.address, "transaction") as pooler,
        open_parley(settings, replace(pair.address, pooler=pooler.address.url), model) as parley,
        asyncio.timeout(60),
    ):
        assert (await parley.ask("hello")).content == "Hello."
        yield pair, pooler, parley


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
    async with opened(template, settings, model) as (pair, _, parley):
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


async def test_a_pooler_that_follows_a_failover_first_lets_nobody_work_before_ids_have_leapt(
    template: Server, settings: Settings, model: OpenAIStub
) -> None:
    async with opened(template, settings, model) as (pair, pooler, parley):
        await pair.second.control("promote")
        pooler.lead_to(pair.second.address)
        async with connected(pair.second.address) as promoted:
            await until_led_to(pooler, timeline=2)
            with pytest.raises(DatabaseLost):
                await parley.accept("hello")
            assert await promoted.fetchval("SELECT count(*) FROM inbox") == 1
            # The direct address leads there, too, once the first one is gone.
            await pair.first.kill()
            await until_ready(parley, None)
            assert (await parley.ask("hello")).content == "Hello."
            assert await promoted.fetchval("SELECT array_agg(id > 1000000 ORDER BY id) FROM inbox") == [False, True]
            assert await promoted.fetchval("SELECT array_agg(id > 1000000 ORDER BY id) FROM turns") == [False, True]


async def until_led_to(pooler: Pooler, timeline: int) -> None:
    """Return when the pooler gives its clients sessions of the server on this timeline."""
    led = "SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)::int = $1"
    while True:
        client = await asyncpg.connect(**pooler.address.asyncpg_arguments(as_owner=True), statement_cache_size=0)
        try:
            if await client.fetchval(led, timeline):
                return
        finally:
            client.terminate()
        await asyncio.sleep(0.02)
