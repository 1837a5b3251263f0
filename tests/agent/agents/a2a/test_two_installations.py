"""One installation asks another: two databases, two models, real HTTP between them."""

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from adapters.cli.serving import with_free_port
from agent.people.hops import installation_id
from shared.db.database import Address
from shared.db.hosts import URL
from shared.settings import Settings
from tests.adapters.a2a.callers import hanging
from tests.adapters.web.conftest import TOKEN, Site, open_site
from tests.conftest import new_database
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.connections import connected
from tests.support.delegating import ask, tools_of
from tests.support.eventually import eventually
from tests.support.forks import get_command
from tests.support.parley import Parley, open_parley

ROOT = Path(__file__).resolve().parent.parent.parent.parent
ADD = """
INSERT INTO agents (name, description, url, headers)
VALUES (:name, 'Lives elsewhere.', :url, '{"Authorization": "Bearer ${A2A_TEST_TOKEN}"}')
"""


@dataclass
class Installations:
    """The installation whose people ask, and the one that is asked."""

    near: Parley
    near_site: Site
    far: Parley
    far_site: Site


@asynccontextmanager
async def installation(postgres: URL, home: Path) -> AsyncIterator[tuple[Parley, Site]]:
    """Open an installation of its own, its web adapter included."""
    async with OpenAIStub() as model, new_database(postgres) as address:
        settings = Settings(
            parley_home=home,
            llm_models=("openai/stub",),
            openai_base_url=model.base_url,
            openai_api_key=SecretStr("sk-test"),
            api_token=SecretStr(TOKEN),
            port=0,
            default_guest_token_budget=1_000_000,
        )
        async with open_parley(with_free_port(settings), address, model) as parley, open_site(parley) as site:
            yield parley, site


@pytest.fixture
async def installations(postgres: URL, tmp_path: Path) -> AsyncIterator[Installations]:
    """Two installations; in the near one an admin has added the far one as an agent."""
    os.environ["A2A_TEST_TOKEN"] = TOKEN
    async with (
        installation(postgres, tmp_path / "near") as (near, near_site),
        installation(postgres, tmp_path / "far") as (far, far_site),
    ):
        await near.sql(ADD, name="abroad", url=far_site.url)
        yield Installations(near, near_site, far, far_site)


def result_of(reply: Any) -> Any:
    """Return the result of the first call of a turn."""
    return reply.tool_calls_made[0].result


async def test_a_task_is_done_by_the_other_installation(installations: Installations) -> None:
    installations.near.model.play([Answer(tool_calls=[ask("abroad", "What is the weather, né 🦜?")]), "It rains."])
    installations.far.model.play(["Rain, né 🦜."])

    reply = await installations.near.ask("How is it there?")

    assert reply.content == "It rains."
    assert result_of(reply) == {"result": "Rain, né 🦜.", "agent": "abroad", "iterations": 0}
    assert "What is the weather, né 🦜?" in json.dumps(installations.far.model.requests[0].body, ensure_ascii=False)
    rows = await installations.near.sql(
        "SELECT name, payload FROM turn_events WHERE name LIKE 'delegation%' ORDER BY id"
    )
    assert [row.name for row in rows] == ["delegation_request", "delegation_response"]
    assert rows[1].payload["result"] == "Rain, né 🦜."
    assert await installations.near.value("SELECT card->>'name' FROM agents") == "Parley"


async def test_each_person_is_one_over_there_and_nobody_knows_who(installations: Installations) -> None:
    installations.near.model.play(lambda body, _number: _ask_once(body))
    for user in ("ann", "bob", "ann"):
        await installations.near.ask("ask them", user=user)

    links = await installations.far.sql("SELECT platform, platform_user_id FROM user_platform_links ORDER BY id")
    assert [link.platform for link in links] == ["a2a", "a2a"]
    assert all(
        link.platform_user_id.startswith(installation_id(installations.near.app.secrets) + "/") for link in links
    )
    assert "ann" not in str(links)
    assert await installations.far.value("SELECT count(*) FROM turns") == 3


def _ask_once(body: dict[str, Any]) -> Answer:
    return Answer("Done.") if body["messages"][-1]["role"] == "tool" else Answer(tool_calls=[ask("abroad")])


async def test_files_that_the_other_installation_makes_are_the_persons_own(installations: Installations) -> None:
    installations.near.model.play([Answer(tool_calls=[ask("abroad", "Write a plan.")]), "Here it is."])
    document = {"title": "Plan", "content": "Rest.", "format": "md"}
    installations.far.model.play([Answer(tool_calls=[("file_manager__create_document", document)]), "I wrote it."])

    reply = await installations.near.ask("I want a plan")

    assert [file.filename for file in reply.files] == ["Plan.md"]
    assert f"file_id {reply.files[0].file_id}" in result_of(reply)["result"]
    path = "/files/" + reply.files[0].url.partition("/files/")[2]
    assert "Rest." in (await installations.near_site.client.get(path)).text


async def test_a_question_that_goes_round_in_circles_ends_with_an_error(installations: Installations) -> None:
    await installations.far.sql(ADD, name="back", url=installations.near_site.url)
    installations.near.model.play([Answer(tool_calls=[ask("abroad")]), "They could not."])
    installations.far.model.play([Answer(tool_calls=[ask("back")]), "Nobody knows."])

    reply = await installations.near.ask("ask them")

    assert reply.content == "They could not."
    assert result_of(reply)["result"] == "Nobody knows."
    error = json.dumps(installations.far.model.requests[-1].body["messages"][-1])
    assert "has been here before" in error
    assert await installations.near.value("SELECT count(*) FROM inbox") == 1


async def test_who_is_asked_at_the_third_hand_may_not_hand_on(installations: Installations) -> None:
    installations.near.model.play(["Hi.", "Hi."])
    for hops in (["a", "b"], ["a", "b", "c"]):
        message = {"messageId": f"m-{len(hops)}", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "message/send"}
        params = {"message": {**message, "metadata": {"parley/trail": hops}}}
        await installations.near_site.client.post("/a2a", json={**call, "params": params})

    tools = [tools_of(request.body) for request in installations.near.model.requests]
    assert ["agents__delegate" in tool for tool in tools] == [True, False]


async def asked_the_far_model(installations: Installations) -> None:
    """Wait until the other installation has asked its model."""

    async def look() -> bool:
        return len(installations.far.model.requests) > 0

    await eventually(look)


async def test_a_stop_goes_on_to_the_other_installation(installations: Installations) -> None:
    installations.near.model.play([Answer(tool_calls=[ask("abroad")])])
    installations.far.model.play(hanging)
    asking = asyncio.create_task(installations.near.ask("ask them"))
    await asked_the_far_model(installations)

    await installations.near_site.posts("/stop", platform_channel_id="dm-ann")

    assert (await asking).error == "stopped"
    await eventually(lambda: installations.far.sql("SELECT id FROM turns WHERE status = 'cancelled'"))


async def test_what_the_other_installation_stops_is_an_error_result(installations: Installations) -> None:
    installations.near.model.play([Answer(tool_calls=[ask("abroad")]), "They would not."])
    installations.far.model.play(hanging)
    asking = asyncio.create_task(installations.near.ask("ask them"))
    await asked_the_far_model(installations)

    await installations.far.sql("UPDATE turns SET stop_requested = true")
    await installations.far.sql("SELECT pg_notify('parley_stops', id::text) FROM turns")

    assert (await asking).content == "They would not."
    assert "abroad did not do it: Stopped." in result_of(await asking)["message"]


async def test_an_installation_that_is_killed_while_it_works_is_an_error_result(
    parley: Parley, postgres: URL, tmp_path: Path
) -> None:
    os.environ["A2A_TEST_TOKEN"] = TOKEN
    parley.model.play([Answer(tool_calls=[ask("abroad")]), "They are gone."])
    async with new_database(postgres) as address, killed_at_the_end(address, tmp_path / "far") as (process, url):
        await parley.sql(ADD, name="abroad", url=url)
        asking = asyncio.create_task(parley.ask("ask them"))
        async with connected(address) as far:
            await eventually(lambda: far.fetchval("SELECT id FROM turns WHERE status = 'running'"))
        process.kill()

        assert (await asking).content == "They are gone."

    assert result_of(await asking)["error"] is True
    assert "abroad" in str(await parley.value("SELECT last_error FROM agents"))


@asynccontextmanager
async def killed_at_the_end(address: Address, home: Path) -> AsyncIterator[tuple[Process, str]]:
    """Start a Parley of its own, whose model takes a minute for each answer."""
    parameters = {
        "DATABASE_URL": address.libpq(as_owner=True),
        "PARLEY_HOME": str(home),
        "API_TOKEN": TOKEN,
        "PORT": "0",
        "DEBUG_MOCK_RESPONSES": json.dumps([{"content": "At last.", "delay": 60}]),
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
    }
    process = await asyncio.create_subprocess_exec(*get_command(), "run", env=parameters, stdout=PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while b" API " not in (line := await process.stdout.readline()):
                assert line, "it ended before it was ready"
        yield process, line.split()[1].decode().removesuffix("/v1/messages")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
