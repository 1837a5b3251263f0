"""Peers that hang, die, flood or talk garbage: an error in time, and nothing worse."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest
from a2a.types.a2a_pb2 import StreamResponse
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agent.agents.a2a.exchange import TaskProgress
from shared.errors import ToolError, Unavailable
from tests.agent.agents.a2a.rough import STARTED, Ask, broken, event, last_error, rough
from tests.standins.a2a_agent import Far, Swap, build_agent
from tests.support.eventually import eventually
from tests.support.parley import Parley


async def test_an_agent_that_hangs_costs_its_time_and_is_told_to_stop(
    ask: Ask, far: Far, swap: Swap, url: str, parley: Parley
) -> None:
    swap.inner = build_agent(far, url)

    with pytest.raises(Unavailable, match="far did not come to an end within 3 seconds"):
        await ask("hang", seconds=3)

    async def look() -> list[str]:
        return far.cancelled

    assert len(await eventually(look)) == 1
    assert "did not come to an end" in await last_error(parley)


async def test_an_agent_that_never_answers_at_all_costs_its_time(ask: Ask, swap: Swap, url: str) -> None:
    async def hang(_request: Request) -> Response:
        await asyncio.Event().wait()
        return Response()

    for streams in (True, False):
        swap.inner = rough(url, hang, streams=streams)
        with pytest.raises(Unavailable, match="within 1 seconds"):
            await ask("anything", seconds=1)


async def test_an_agent_that_dies_in_mid_stream_is_an_error(ask: Ask, swap: Swap, url: str, parley: Parley) -> None:
    async def answer(_request: Request) -> Response:
        swap.inner = _dead
        return StreamingResponse(broken(STARTED), media_type="text/event-stream")

    swap.inner = rough(url, answer)

    with pytest.raises(Unavailable, match="far"):
        await ask("anything")
    assert "far" in await last_error(parley)


async def _dead(_scope: Any, _receive: Any, _send: Any) -> None:
    raise ConnectionResetError


async def _endless(piece: bytes) -> AsyncIterator[bytes]:
    yield STARTED
    while True:
        yield piece
        await asyncio.sleep(0)


def more() -> dict[str, Any]:
    """Return a piece of an answer that never ends."""
    artifact = {"artifactId": "a", "parts": [{"text": "more " * 1000}]}
    return {"artifactUpdate": {"taskId": "t-1", "contextId": "c-1", "artifact": artifact, "append": True}}


@pytest.mark.parametrize(
    ("piece", "reason"),
    [
        (event(more()), "more than|larger than"),
        (b"data: " + b"x" * 100_000, "more than|larger than"),
        (b": still here\n\n" * 1000, "more than|larger than"),
    ],
    ids=["events", "one line", "comments"],
)
async def test_a_stream_without_end_is_cut_off(piece: bytes, reason: str, ask: Ask, swap: Swap, url: str) -> None:
    async def answer(_request: Request) -> Response:
        return StreamingResponse(_endless(piece), media_type="text/event-stream")

    swap.inner = rough(url, answer)

    with pytest.raises(ToolError, match=reason):
        await ask("anything")


def test_an_answer_in_too_many_parts_is_not_kept() -> None:
    progress = TaskProgress()
    piece = ParseDict(more(), StreamResponse())

    for _ in range(20_000):
        progress.apply(piece)
    with pytest.raises(ToolError, match="20,000 parts"):
        progress.apply(piece)


async def test_fifty_megabytes_are_not_read(ask: Ask, swap: Swap, url: str) -> None:
    size = 0

    async def many() -> AsyncIterator[bytes]:
        nonlocal size
        for _ in range(500):
            size += 100_000
            yield b"x" * 100_000
            await asyncio.sleep(0)

    async def answer(_request: Request) -> Response:
        return StreamingResponse(many(), media_type="application/json")

    swap.inner = rough(url, answer, streams=False)

    with pytest.raises(ToolError, match="larger than"):
        await ask("anything")
    assert size < 30_000_000


GARBAGE: list[bytes] = [
    b"",
    b"no json",
    b"7",
    b"null",
    b"[]",
    b'"text"',
    b"{}",
    b'{"jsonrpc": "2.0", "id": 1}',
    b'{"jsonrpc": "2.0", "id": 1, "result": 7}',
    b'{"jsonrpc": "2.0", "id": 1, "result": []}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {"task": 7}}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {"task": {"id": 7}}}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {"task": {"id": "t", "status": {"state": "ODD"}}}}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {"kind": "task"}}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {"kind": "message", "parts": 7}}',
    b'{"jsonrpc": "2.0", "id": 1, "error": 7}',
    b'{"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": 7}}',
    b"[" * 100_000,
    b"\xff\xfe\x00",
]


async def test_garbage_is_an_error_and_nothing_worse(ask: Ask, swap: Swap, url: str) -> None:
    bodies = [(garbage, "application/json") for garbage in GARBAGE]
    bodies += [(b"data: " + garbage + b"\n\n", "text/event-stream") for garbage in GARBAGE]
    for version, streams, (body, kind) in product(("1.0", "0.3"), (True, False), bodies):

        async def answer(_request: Request, body: bytes = body, kind: str = kind) -> Response:
            return Response(body, media_type=kind)

        swap.inner = rough(url, answer, streams=streams, version=version)
        with pytest.raises((ToolError, Unavailable), match="far"):
            await ask("anything", seconds=10)


GRPC = {"url": "grpc://x", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
FILE = {"url": "file:///etc/passwd", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
NOWHERE = {"url": "", "protocolBinding": "JSONRPC", "protocolVersion": "x"}


NO_CARDS = [
    b"",
    b"no json",
    b"7",
    b"[]",
    b"{}",
    b'{"name": 7}',
    b'{"skills": 7, "url": 7}',
    b'{"url": "http://x", "skills": [7]}',
    b'{"supportedInterfaces": [7]}',
    b'{"supportedInterfaces": []}',
    b"[" * 100_000,
    b"x" * 1_000_000,
    *(json.dumps({"supportedInterfaces": [interface]}).encode() for interface in (GRPC, FILE, NOWHERE)),
    b'{"securitySchemes": {"a": 7}, "url": "http://127.0.0.1:1/"}',
]


async def test_a_card_that_is_none_is_an_error(ask: Ask, swap: Swap, parley: Parley, subtests: pytest.Subtests) -> None:
    async def show(_request: Request) -> Response:
        return Response(card, media_type="application/json")

    swap.inner = Starlette(routes=[Route("/{path:path}", show, methods=["GET", "POST"])])
    for card in NO_CARDS:
        with subtests.test(str(card[:60])):
            await parley.sql("UPDATE agents SET last_error = NULL")
            with pytest.raises((ToolError, Unavailable)):
                await ask("anything", seconds=10)
            assert await last_error(parley) != "None"


async def test_an_http_error_is_named_by_status(ask: Ask, swap: Swap, url: str, parley: Parley) -> None:
    for status, streams in product((401, 403, 404, 500, 503), (True, False)):

        async def answer(_request: Request, status: int = status) -> Response:
            return PlainTextResponse("secret words", status)

        swap.inner = rough(url, answer, streams=streams)
        with pytest.raises(Unavailable, match=f"far answered with the HTTP status {status}") as document:
            await ask("anything")
        assert "secret" not in str(document.value)
        assert str(status) in await last_error(parley)
