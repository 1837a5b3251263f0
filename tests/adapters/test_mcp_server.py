"""`parley mcp`: our modules in another process give what they give in this one, for the same person."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import SecretStr

from adapters.cli.compose import open_app
from adapters.mcp.server import ModuleServer, serve_http
from adapters.terminal.person import terminal_sender
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import Answer
from tests.support.forks import get_command
from tests.support.parley import Parley

ROOT = Path(__file__).resolve().parent.parent.parent
TOKEN = "a-token-of-the-test"
ANN = {"platform": "test", "platform_user_id": "ann"}
# An admin says of the other process what our own tools say of themselves; else the person would be asked first.
SERVERS = """
INSERT INTO mcp_servers (
    name, transport, url, headers, command, args, env,
    required_permission, tells_user, reads_untrusted, read_only_tools, tells_nobody_tools
) VALUES
    ('web', 'http', :url, CAST(:headers AS jsonb), NULL, '[]', '{}', 'guest', true, false, '["*"]', '["*"]'),
    ('pipes', 'stdio', NULL, '{}', :command, CAST(:args AS jsonb), CAST(:env AS jsonb), 'guest', true, false, '["*"]',
     '["*"]')
"""
Call = Callable[..., Awaitable[Any]]


pytestmark = pytest.mark.settings(default_guest_token_budget=1_000_000)


def environment(address: Address, home: Path) -> dict[str, str]:
    """Return what a second Parley on the same database is started with."""
    return {
        "DATABASE_URL": address.libpq(as_owner=True),
        "PARLEY_HOME": str(home),
        "API_TOKEN": TOKEN,
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
    }


@asynccontextmanager
async def running(address: Address, home: Path) -> AsyncIterator[tuple[Process, str]]:
    """Run `parley mcp --http` on the test's database; give the process and its address."""
    process = await asyncio.create_subprocess_exec(
        *get_command(), "mcp", "--http", "--port", "0", env=environment(address, home), stderr=PIPE
    )
    try:
        async with asyncio.timeout(100):
            response = await _told_address(process)
        yield process, response
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.fixture
async def url(settings: Settings, address: Address) -> AsyncIterator[str]:
    """The address of such a server on the test's database; another process would cost seconds and show nothing more."""
    public = {"api_token": SecretStr(TOKEN), "public_url": "https://chat.example.org"}
    endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with open_app(settings.model_copy(update=public), address) as app:
        serving = asyncio.create_task(serve_http(app, ModuleServer(app, ()), 0, on_start=endpoint.set_result))
        yield await endpoint
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def _told_address(process: Process) -> str:
    assert process.stderr is not None
    output = b""
    while line := await process.stderr.readline():
        output += line
        if b"serving " in line:
            return line.decode().split("serving ")[1].strip()
    raise AssertionError(output.decode())


@asynccontextmanager
async def connected(url: str, **headers: str) -> AsyncIterator[Call]:
    """Connect with the token, and give what calls a tool for a person."""
    parameters = {"authorization": f"Bearer {TOKEN}", **headers}
    async with (
        httpx2.AsyncClient(headers=parameters, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):

        async def call(tool: str, arguments: dict[str, Any], **meta: Any) -> Any:
            result = await client.call_tool(tool, arguments, meta={f"parley/{name}": meta[name] for name in meta})  # type: ignore[arg-type]  # our own keys
            return result.structured_content["result"]

        yield call


async def test_a_person_who_is_named_is_served_as_that_person(url: str, parley: Parley) -> None:
    async with connected(url) as call:
        assert "error" not in await call("knowledge__remember", {"content": "Ann likes tea"}, person=ANN)
        mine = await call("knowledge__list_memories", {}, person=ANN)
        others = await call("knowledge__list_memories", {}, person={**ANN, "platform_user_id": "bob"})
        public = {"platform": "test", "server": "s", "channel": "general"}
        outside = await call("knowledge__list_memories", {}, person=ANN, place=public)

    assert "Ann likes tea" in json.dumps(mine)
    assert "Ann likes tea" not in json.dumps([others, outside])
    assert await parley.value("SELECT count(*) FROM users") == 2


HOSTS = [
    ({"host": "evil.example"}, 421),
    ({"host": "evil.example:8090"}, 421),
    ({"host": "localhost.evil.example"}, 421),
    ({"host": "[::1"}, 421),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "http://10.0.0.7"}, 403),
    ({"origin": "null"}, 403),
    ({"host": "localhost:1"}, 200),
    ({"host": "10.0.0.7:8090"}, 200),
    ({"host": "[::1]:8090", "origin": "http://localhost:3000"}, 200),
    ({"host": "chat.example.org", "origin": "https://chat.example.org"}, 200),
]


async def test_pages_and_hosts_of_others_are_refused(url: str) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    parameters = {"authorization": f"Bearer {TOKEN}", "accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(headers=parameters, trust_env=False) as http:
        statuses = [(await http.post(url, json=ping, headers=headers)).status_code for headers, _ in HOSTS]

    assert statuses == [status for _, status in HOSTS]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_cleanly(number: signal.Signals, address: Address, tmp_path: Path) -> None:
    async with running(address, tmp_path) as (process, url), connected(url) as call:
        assert "error" not in await call("knowledge__remember", {"content": "Ann likes tea"}, person=ANN)
        process.send_signal(number)
        _, output = await asyncio.wait_for(process.communicate(), 60)

    assert (process.returncode, output.decode()) == (0, "")


async def test_headers_may_name_the_person_too(url: str, parley: Parley) -> None:
    async with connected(url, **{"parley-platform": "test", "parley-user": "ann"}) as call:
        assert "error" not in await call("knowledge__remember", {"content": "Ann likes tea"})

    assert await parley.value("SELECT platform_user_id FROM user_platform_links") == "ann"


async def test_a_call_without_a_proper_person_is_refused_with_the_reason(url: str, parley: Parley) -> None:
    persons = (
        (None, "Name the person"),
        ({"platform": "test"}, "platform_user_id"),
        ({**ANN, "permission": "owner"}, "permission"),
        ({"platform": "test", "platform_user_id": 7}, "platform_user_id"),
    )
    async with connected(url) as call:
        for person, reason in persons:
            result = await call("knowledge__list_memories", {}, **({"person": person} if person else {}))

            assert result["error"] is True
            assert reason in result["message"]
            assert await parley.value("SELECT count(*) FROM users") == 0


async def test_characters_that_no_table_can_keep_are_no_fault_of_ours_in_a_name(url: str, parley: Parley) -> None:
    place = {"platform": "test", "server": "g\x00", "channel": "general\x00", "thread": "t\x00"}
    async with connected(url) as call:
        person = {"platform": "test\x00", "platform_user_id": "a\x00nn"}
        kept = await call(
            "knowledge__remember", {"content": "Ann likes tea"}, person=person, place=place, call_id="\x00"
        )
        refusal = await call("knowledge__list_memories", {}, person={"platform": "test", "platform_user_id": " \x00"})
        far = await call("knowledge__list_memories", {}, person=ANN, place=dict.fromkeys(place, "\u4e00" * 200))

    assert kept["content"] == "Ann likes tea"
    assert "may not be empty" in refusal["message"]
    assert "characters together" in far["message"]
    assert await parley.value("SELECT platform_user_id FROM user_platform_links") == "ann"


@pytest.mark.parametrize(
    ("pause", "reason"),
    [
        ("UPDATE users SET paused_at = now()", "paused me for you"),
        (
            "INSERT INTO servers (platform, platform_server_id, paused_at) VALUES ('test', 'guild', now())",
            "paused me on this server",
        ),
    ],
)
async def test_no_tool_runs_for_somebody_whom_an_admin_has_paused(
    pause: str, reason: str, url: str, parley: Parley
) -> None:
    place = {"platform": "test", "server": "guild", "channel": "general"}
    async with connected(url) as call:
        await call("knowledge__remember", {"content": "Ann likes tea"}, person=ANN, place=place)
        await parley.sql(pause)
        result = await call("knowledge__remember", {"content": "Ann likes coffee"}, person=ANN, place=place)
        await parley.sql("UPDATE users SET paused_at = NULL")
        await parley.sql("UPDATE servers SET paused_at = NULL")
        memories = await call("knowledge__list_memories", {}, person=ANN, place=place)

    assert result["error"] is True
    assert reason in result["message"]
    assert "tea" in str(memories)
    assert "coffee" not in str(memories)


@pytest.mark.parametrize("levels", [40, 1000, 5000])
async def test_arguments_that_are_nested_deep_are_an_error_of_the_tool(levels: int, url: str) -> None:
    deep = "[" * levels + "]" * levels
    meta = json.dumps({"parley/person": ANN})
    params = f'{{"name": "knowledge__remember", "arguments": {{"content": {deep}}}, "_meta": {meta}}}'
    body = f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {params}}}'
    headers = {
        "authorization": f"Bearer {TOKEN}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    async with httpx2.AsyncClient(trust_env=False) as http:
        answer = await http.post(url, content=body, headers=headers)

    assert answer.status_code == 200, answer.text
    assert answer.json()["id"] == 7
    result = answer.json()["result"]
    assert result["isError"] is True
    assert "nested at most 32 deep" in result["structuredContent"]["result"]["message"]


async def test_a_request_without_the_token_is_refused(url: str) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        for token in (None, "Bearer wrong", f"Basic {TOKEN}", "Bearer"):
            answer = await http.post(url, json={}, headers={"authorization": token} if token else {})

            assert answer.status_code == 401, token
            assert "API_TOKEN" in answer.json()["message"]


async def test_the_server_checks_permission_and_persona_as_well(url: str, parley: Parley) -> None:
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, is_default, allowed_modules)"
        " VALUES ('P', 'Be brief.', true, '[\"knowledge\"]')"
    )
    async with connected(url) as call:
        result = await call("file_manager__list_files", {}, person=ANN)

    assert "There is no tool" in result["message"]


async def test_a_module_that_is_switched_off_is_neither_listed_nor_called(url: str, parley: Parley) -> None:
    await parley.sql("SELECT admin.set_module('calculator', is_enabled => false)")
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        names = {tool.name for tool in (await client.list_tools()).tools}
    async with connected(url) as call:
        result = await call("calculator__calculate", {"expression": "1 + 1"}, person=ANN)

    assert "knowledge__remember" in names
    assert "calculator__calculate" not in names
    assert "There is no tool" in result["message"]


async def test_a_module_in_another_process_gives_what_it_gives_in_this_one(
    parley: Parley, address: Address, tmp_path: Path
) -> None:
    os.environ["MCP_TEST_PARLEY"] = TOKEN
    async with running(address, tmp_path) as (_, url):
        await check_the_same(url, parley, environment(address, tmp_path))


async def check_the_same(url: str, parley: Parley, variables: dict[str, str]) -> None:
    """Let the model call each tool here, in the process at this address, and in one that is started for its pipes."""
    await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('P', 'Be brief.', true)")
    await parley.sql("INSERT INTO users (permission_level) VALUES ('owner')")
    await parley.sql(
        "INSERT INTO user_platform_links (user_id, platform, platform_user_id) SELECT id, 'terminal', :name FROM users",
        name=terminal_sender().platform_user_id,
    )
    command, *fork = get_command()
    await parley.sql(
        SERVERS,
        url=url,
        headers=json.dumps({"Authorization": "Bearer ${MCP_TEST_PARLEY}"}),
        command=command,
        args=json.dumps([*fork, "mcp"]),
        env=json.dumps(variables),
    )
    async with asyncio.timeout(100):
        while True:
            if {tool.module for tool in parley.app.toolbox.tools} >= {"web", "pipes"}:
                break
            await asyncio.sleep(0.05)

    for tool, arguments in (
        ("knowledge__remember", {"content": "Ann likes tea"}),
        ("knowledge__recall", {"query": "tea"}),
        ("knowledge__list_memories", {}),
        ("knowledge__forget", {"memory_id": 999}),
        ("file_manager__list_files", {}),
        ("file_manager__read_document", {"file_id": 12345}),
    ):
        parley.model.play([
            Answer(tool_calls=[(tool, arguments)]),
            Answer(tool_calls=[(f"web__{tool}", arguments)]),
            Answer(tool_calls=[(f"pipes__{tool}", arguments)]),
            Answer("done"),
        ])  # fmt: skip
        reply = await parley.ask("go on")
        here, far, near = [call.result for call in reply.tool_calls_made]
        assert (far, near) == (here, here), tool
