"""A database that falls silent, and processes that are stopped: callers are told to come back, and no process hangs."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.hosts import URL
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import gated_answer
from tests.support.connections import connected
from tests.support.given_database import given_database
from tests.support.serving import serving
from tests.support.silent_network import networked

CALLERS = 20
ASKED = "SELECT count(*) FROM inbox"


@pytest.fixture
async def upstream(postgres: URL) -> AsyncIterator[Address]:
    """A migrated database whose owner is no superuser."""
    async with given_database(postgres) as address:
        await update_tables(address)
        yield address


async def test_callers_of_a_silent_database_come_back_and_a_healed_one_is_used_at_once(
    upstream: Address, settings: Settings, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, _number: Answer("Hello."))
    async with networked(upstream) as (network, address), serving(settings, address, tmp_path) as parley:
        assert any("Postgres" in line and "directly" in line for line in parley.lines)
        assert (await parley.ask("first")).status_code == 200
        network.fall_silent()
        async with asyncio.timeout(45):
            ready = await parley.client.get("/readyz")
        assert ready.status_code == 503
        assert "database" in ready.json()["error"]["message"]
        async with asyncio.timeout(45):
            responses = await asyncio.gather(*(parley.ask(f"silent-{n}", user=f"u{n}") for n in range(CALLERS)))
        assert {response.status_code for response in responses} == {503}
        assert all(int(response.headers["Retry-After"]) > 0 for response in responses)

        network.heal()
        async with asyncio.timeout(45):
            assert (await parley.ask_until_answered("healed"))["content"] == "Hello."
        async with asyncio.timeout(60):
            answers = await asyncio.gather(
                *(parley.ask_until_answered(f"silent-{n}", user=f"u{n}") for n in range(CALLERS))
            )
        assert {answer["content"] for answer in answers} == {"Hello."}
        assert await parley.stop(30) == 0
    async with connected(upstream) as owner:
        assert await owner.fetchval(ASKED) == CALLERS + 2


async def test_callers_who_wait_when_the_database_falls_silent_come_back_for_their_answer(
    upstream: Address, settings: Settings, model: OpenAIStub, tmp_path: Path
) -> None:
    release, script = gated_answer("Hello.")
    model.play(script)
    async with networked(upstream) as (network, address), serving(settings, address, tmp_path) as parley:
        task = asyncio.create_task(parley.ask("waiting"))
        await model.until(1)
        network.fall_silent()
        release.set()
        async with asyncio.timeout(60):
            response = await task
        assert response.status_code == 503
        assert response.headers["Retry-After"]
        network.heal()
        async with asyncio.timeout(60):
            assert (await parley.ask_until_answered("waiting"))["content"] == "Hello."
    async with connected(upstream) as owner:
        assert await owner.fetchval("SELECT count(*) FROM turns") == 1


@pytest.mark.parametrize("seconds_of_silence", [0, 12])
async def test_a_process_whose_database_is_silent_ends_when_it_is_told_to(
    upstream: Address, settings: Settings, model: OpenAIStub, tmp_path: Path, seconds_of_silence: int
) -> None:
    model.play(gated_answer("never")[1])
    async with networked(upstream) as (network, address), serving(settings, address, tmp_path) as parley:
        tasks = [asyncio.create_task(parley.ask(f"waiting-{n}", user=f"u{n}")) for n in range(3)]
        await model.until(3)
        network.fall_silent()
        await asyncio.sleep(seconds_of_silence)
        await parley.stop(30)
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_process_that_has_just_started_ends_at_once(
    upstream: Address, settings: Settings, model: OpenAIStub, tmp_path: Path
) -> None:
    async with serving(settings, upstream, tmp_path) as parley:
        # The models' library is still being imported.
        began = time.monotonic()
        assert await parley.stop(30) == 0
    assert time.monotonic() - began < 10


async def test_callers_who_wait_at_a_stop_get_their_answer_from_the_next_process(
    upstream: Address, settings: Settings, model: OpenAIStub, tmp_path: Path
) -> None:
    release, script = gated_answer("Hello.")
    model.play(script)
    async with serving(settings, upstream, tmp_path) as parley:
        tasks = [asyncio.create_task(parley.ask(f"event-{n}", user=f"u{n}")) for n in range(CALLERS)]
        await model.until(CALLERS)
        assert await parley.stop(30) == 0
        responses = await asyncio.gather(*tasks)
    assert [response.status_code for response in responses] == [503] * CALLERS
    assert all(int(response.headers["Retry-After"]) > 0 for response in responses)
    assert {response.json()["error"]["code"] for response in responses} == {"stopping"}
    release.set()
    async with serving(settings, upstream, tmp_path) as parley, asyncio.timeout(90):
        answers = [parley.ask_until_answered(f"event-{n}", user=f"u{n}") for n in range(CALLERS)]
        assert {answer["content"] for answer in await asyncio.gather(*answers)} == {"Hello."}
    async with connected(upstream) as owner:
        assert await owner.fetchval("SELECT count(*) FROM turns") == CALLERS
