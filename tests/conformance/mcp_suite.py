"""MCP's own conformance suite, against `parley mcp --http` and against our client."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import ClientSession, web

from tests.conformance.environment import FOLDER, ROOT, Verdict, run_node

SUITE = FOLDER / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
MODULE = "conformance"
TOKEN = "a-token-of-the-suite"
LISTED = re.compile(r"^  - (\S+) \[", re.MULTILINE)
# What the suite, which has no token, would send as a client of ours does.
ADDED = {"Authorization": f"Bearer {TOKEN}", "Parley-Platform": "conformance", "Parley-User": "suite"}
# They belong to one connection, and the body is passed on whole.
HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "keep-alive", "content-encoding"}

JSON_ONLY = "results of our tools are JSON, which goes out as text and structured content"
NO_RESOURCES = "the server has tools alone, and declares no resources"
NO_PROMPTS = "the server has tools alone, and declares no prompts"
NO_REQUESTS = "the server keeps no session, so it sends no requests to its client"
NO_OAUTH = "servers are added by admins with the headers that they need; there is no OAuth"
SERVER_NOT_APPLICABLE = {
    "logging-set-level": "the server declares no logging",
    "completion-complete": "the server declares no completions",
    "tools-call-image": JSON_ONLY,
    "tools-call-audio": JSON_ONLY,
    "tools-call-embedded-resource": JSON_ONLY,
    "tools-call-mixed-content": JSON_ONLY,
    "tools-call-with-logging": "the server declares no logging",
    "tools-call-with-progress": "tools report no progress, which the protocol leaves to the server",
    "tools-call-sampling": NO_REQUESTS,
    "tools-call-elicitation": NO_REQUESTS,
    "elicitation-sep1034-defaults": NO_REQUESTS,
    "elicitation-sep1330-enums": NO_REQUESTS,
    "server-sse-polling": "answers are JSON and no streams, so there is nothing to come back to",
    **dict.fromkeys(("resources-list", "resources-read-text", "resources-read-binary"), NO_RESOURCES),
    **dict.fromkeys(("resources-templates-read", "resources-subscribe", "resources-unsubscribe"), NO_RESOURCES),
    **dict.fromkeys(("prompts-list", "prompts-get-simple", "prompts-get-with-args"), NO_PROMPTS),
    **dict.fromkeys(("prompts-get-embedded-resource", "prompts-get-with-image"), NO_PROMPTS),
}
CLIENT_NOT_APPLICABLE = {
    "elicitation-sep1034-client-defaults": "the client declares no elicitation: a server may not ask people",
}


async def run(home: Path) -> list[Verdict]:
    """Return what came of each scenario, for the server and for the client."""
    _, output = await run_node(str(SUITE), "list")
    of_server, _, of_client = output.partition("Client scenarios")
    async with serving(home) as url, behind_token(url) as open_url:
        server = [
            await _run_scenario("MCP server", name, SERVER_NOT_APPLICABLE.get(name), "server", "--url", open_url)
            for name in LISTED.findall(of_server)
        ]
    command = f"{sys.executable} -m tests.conformance.mcp_client"
    client = [
        await _run_scenario("MCP client", name, _why_not_by_client(name), "client", "--command", command)
        for name in LISTED.findall(of_client)
    ]
    return [*server, *client]


def _why_not_by_client(name: str) -> str | None:
    return NO_OAUTH if name.startswith("auth/") else CLIENT_NOT_APPLICABLE.get(name)


async def _run_scenario(suite: str, name: str, reason: str | None, *args: str) -> Verdict:
    if reason is not None:
        return Verdict(suite, name, None, reason)
    # The client's command runs in our folder, with our packages.
    env = {"PYTHONPATH": str(ROOT)}
    is_passed, output = await run_node(str(SUITE), *args, "--scenario", name, env=env)
    return Verdict(suite, name, is_passed, "" if is_passed else output[-2000:])


@asynccontextmanager
async def serving(home: Path) -> AsyncIterator[str]:
    """Run `parley mcp --http` with the module of fixtures, on a database of its own; yield its address."""
    settings = {
        "PARLEY_HOME": str(home),
        "API_TOKEN": TOKEN,
        "MODULES_PATH": str(Path(__file__).parent / "module"),
        "DEFAULT_GUEST_MODULES": MODULE,
        "PYTHONPATH": str(ROOT),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "adapters.cli", "mcp", MODULE, "--http", "--port", "0",
        cwd=home, env={**os.environ, **settings}, stderr=PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(120):
            yield await _read_address(process)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def _read_address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    output = b""
    while line := await process.stderr.readline():
        output += line
        if b"serving " in line:
            return line.decode().split("serving ")[1].strip()
    raise AssertionError(output.decode())


@asynccontextmanager
async def behind_token(url: str) -> AsyncIterator[str]:
    """Pass requests on with a token and a person, and everything else as it came; yield the address for that."""
    async with ClientSession(auto_decompress=False) as session:

        async def pass_on(request: web.Request) -> web.Response:
            headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
            body = await request.read()
            async with session.request(request.method, url, data=body, headers=headers | ADDED) as answer:
                answer_headers = {
                    name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP
                }
                return web.Response(status=answer.status, body=await answer.read(), headers=answer_headers)

        application = web.Application()
        application.router.add_route("*", "/mcp", pass_on)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}/mcp"
        finally:
            await runner.cleanup()
