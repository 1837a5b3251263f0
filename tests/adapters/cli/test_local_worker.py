"""What a question waits for when the workers beside it have died, and none can be started in this process."""

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from adapters.cli.neighbours import OtherKey
from adapters.cli.talk.opening import opened_client
from shared.db.database import Address
from shared.errors import Refusal
from shared.settings import Settings

OTHERS = """
INSERT INTO processes (name, store, key_hashes, token_hash, alive_until)
VALUES ('other:1:x', 'http://s3.test/parley', '{another}', '', now() + interval '90 seconds')
"""
S3: dict[str, Any] = {"s3_endpoint": "http://s3.test", "s3_access_key": SecretStr("a"), "s3_secret_key": SecretStr("b")}


@pytest.fixture
def address(new_address: Address) -> Address:
    """A database of which the connections are counted."""
    return new_address


@pytest.fixture
async def place(address: Address, owner: asyncpg.Connection, tmp_path: Path) -> tuple[Settings, Address]:
    """The settings of a terminal whose SECRET_KEY is not that of the worker that lives."""
    await owner.execute(OTHERS)
    await owner.execute("INSERT INTO workers DEFAULT VALUES")
    settings = Settings(parley_home=tmp_path, secret_key=SecretStr("ours"), api_token=SecretStr("token"), **S3)
    return settings, replace(address, is_embedded=False)


async def wait_for_an_answer(settings: Settings, address: Address, owner: asyncpg.Connection) -> None:
    async with asyncio.timeout(60), opened_client(settings, address, watch_seconds=0.05):
        await owner.execute("DELETE FROM workers")
        await asyncio.Event().wait()


async def test_who_waits_for_an_answer_is_told_why_nobody_can_give_it(
    place: tuple[Settings, Address], owner: asyncpg.Connection
) -> None:
    with pytest.raises(Refusal, match=r"^SECRET_KEY is not that of the process other:1"):
        await wait_for_an_answer(*place, owner)


async def test_an_answer_that_comes_as_the_watch_gives_up_counts(
    place: tuple[Settings, Address], owner: asyncpg.Connection
) -> None:
    async with asyncio.timeout(60), opened_client(*place, watch_seconds=0.05):
        (watch,) = [task for task in asyncio.all_tasks() if task.get_name() == "look for workers"]
        await owner.execute("DELETE FROM workers")
        while not watch.done():  # noqa: ASYNC110  # the block ends in the same round of the loop
            await asyncio.sleep(0)


async def test_a_start_that_is_refused_leaves_nothing_open(
    place: tuple[Settings, Address], owner: asyncpg.Connection
) -> None:
    connections = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    async with opened_client(*place) as (client, _):
        before = await owner.fetchval(connections)
        for _ in range(2):
            with pytest.raises(OtherKey):
                await client.open_app()
        async with asyncio.timeout(60):
            while await owner.fetchval(connections) != before:  # noqa: ASYNC110  # a server ends its side later
                await asyncio.sleep(0.01)


async def test_what_a_worker_beside_could_not_read_or_ask_is_refused_before_it_is_sent(
    place: tuple[Settings, Address], owner: asyncpg.Connection
) -> None:
    await owner.execute("INSERT INTO known_words (kind, word) VALUES ('model', 'openai/small')")
    async with opened_client(*place) as (client, worker):
        with pytest.raises(OtherKey):
            await client.open_store().__aenter__()
        await worker.check_model("openai/small")
        with pytest.raises(Refusal, match="there is no model"):
            await worker.check_model("no/such")
