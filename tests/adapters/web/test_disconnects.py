"""A client that disconnects before it is answered: its turn ends, unless another client waits for the same message."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from adapters.web.app import Server, build_web, listen, to_config
from agent.queue.abandonment import ASK_SECONDS, RETURN_SECONDS, cancel_if_abandoned
from agent.queue.inbox import Accepted
from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.web.conftest import TOKEN, Site
from tests.adapters.web.test_messages import BODY, frames
from tests.standins.openai_api import Answer, Fault
from tests.standins.openai_api.script import Body, Reply, gated_answer, last_user_text
from tests.support.eventually import eventually
from tests.support.parley import Parley, open_parley

EVENTS = {"Accept": "text/event-stream"}
COMPLETION: dict[str, Any] = {
    "model": "parley",
    "user": "ann",
    "messages": [{"role": "user", "content": "hello"}],
}
ENDS = {"Cancel-On-Close": "true"}
WAYS: dict[str, dict[str, Any]] = {
    "whole": {"url": "/v1/messages", "json": BODY | {"platform_event_id": "1"}, "headers": {}},
    "events": {"url": "/v1/messages", "json": BODY | {"platform_event_id": "1"}, "headers": EVENTS},
    "completion": {"url": "/v1/chat/completions", "json": COMPLETION, "headers": {"Idempotency-Key": "1"}},
    "chunks": {
        "url": "/v1/chat/completions",
        "json": COMPLETION | {"stream": True},
        "headers": {"Idempotency-Key": "1"},
    },
}


def endless(body: Body, _number: int) -> Reply:
    """Never come to an end; a stream says a little."""
    return Answer("word " * 20, end=asyncio.Event()) if body.get("stream") else Fault(hang=True)


UNNAMED: dict[str, dict[str, Any]] = {
    "whole": {"url": "/v1/messages", "json": BODY},
    "events": {"url": "/v1/messages", "json": BODY, "headers": EVENTS},
    "completion": {"url": "/v1/chat/completions", "json": COMPLETION},
    "chunks": {"url": "/v1/chat/completions", "json": COMPLETION | {"stream": True}},
}


def to_end(way: str) -> dict[str, Any]:
    """Return the request with an event id that asks for the end of its turn when it is closed."""
    return WAYS[way] | {"headers": WAYS[way]["headers"] | ENDS}


@asynccontextmanager
async def caller(site: Site, **request: Any) -> AsyncIterator[asyncio.Task[httpx.Response]]:
    """Send a request on a connection of its own, which is closed at the end of the block."""
    async with httpx.AsyncClient(base_url=site.url, headers=site.client.headers, timeout=30) as client:
        call = asyncio.create_task(client.post(**request))
        try:
            yield call
        finally:
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)


async def ended(site: Site) -> tuple[str, str]:
    """Wait for the end of the only turn without being one of its readers, and return how it ended."""
    query = "SELECT status, error FROM turns WHERE status <> 'running'"
    [turn] = await eventually(lambda: site.parley.sql(query))
    return turn.status, turn.error


def test_a_closed_request_has_its_second() -> None:
    assert RETURN_SECONDS + 2 * ASK_SECONDS <= 0.8


@pytest.mark.parametrize("way", WAYS)
async def test_closing_a_request_without_event_id_ends_the_turn_and_the_model_s_connection(
    site: Site, way: str
) -> None:
    site.parley.model.play(endless)
    async with caller(site, **UNNAMED[way]):
        await site.parley.model.until(1)

    assert await ended(site) == ("cancelled", "stopped")
    await site.parley.model.until_idle()
    assert site.parley.model.abandoned == 1
    assert await site.parley.value("SELECT sum(input_tokens) FROM token_logs") > 0
    user = await site.parley.sql("SELECT tokens_used_this_month > 0, tokens_reserved FROM users")
    assert [tuple(row) for row in user] == [(True, 0)]


@pytest.mark.parametrize("way", WAYS)
async def test_a_caller_who_names_the_event_gets_the_answer_whenever_they_come_back(site: Site, way: str) -> None:
    gate = asyncio.Event()
    site.parley.model.play(one_by_one(gate))
    async with caller(site, **WAYS[way]):
        await site.parley.model.until(1)
    # A second caller is served after the first connection has ended, and longer than one may take to return at once.
    await asyncio.sleep(RETURN_SECONDS + 2 * ASK_SECONDS)
    returned = asyncio.create_task(site.client.post(**WAYS[way]))
    gate.set()

    assert "answer 1 to" in (await returned).text
    assert "answer 1 to" in (await site.client.post(**WAYS[way])).text
    assert await site.parley.value("SELECT count(*) FROM turns WHERE stop_requested") == 0


@pytest.mark.parametrize("way", WAYS)
async def test_a_repeated_request_is_answered_that_the_caller_ended_the_turn(site: Site, way: str) -> None:
    site.parley.model.play(endless)
    async with caller(site, **to_end(way)):
        await site.parley.model.until(1)
    await ended(site)

    again = await site.client.post(**WAYS[way])

    assert again.status_code == 200
    assert "Stopped." in again.text
    assert await site.parley.value("SELECT count(*) FROM turns") == 1


async def test_a_stream_that_was_read_for_a_while_keeps_what_was_said(site: Site) -> None:
    site.parley.model.play(endless)
    async with (
        httpx.AsyncClient(base_url=site.url, headers=site.client.headers) as client,
        client.stream("POST", "/v1/messages", json=BODY, headers=EVENTS) as response,
    ):
        async for line in response.aiter_lines():
            if "text_delta" in line:
                break

    assert await ended(site) == ("cancelled", "stopped")
    assert (await site.parley.value("SELECT content FROM outbox")).startswith("word word")
    assert await site.parley.value("SELECT output_tokens FROM token_logs") > 5


async def test_a_caller_who_reads_to_the_end_stops_nothing(site: Site) -> None:
    for way in WAYS.values():
        assert (await site.client.post(**way)).status_code == 200

    assert await site.parley.value("SELECT count(*) FROM turns WHERE status = 'answered'") == 2
    assert await site.parley.value("SELECT count(*) FROM turns WHERE stop_requested") == 0


def one_by_one(gate: asyncio.Event) -> Callable[[Body, int], Any]:
    """Return a model that holds its first answer back until the gate opens, and says what it was asked."""

    async def play(body: Body, number: int) -> Reply:
        if number == 1:
            await gate.wait()
        return Answer(f"answer {number} to {last_user_text(body).partition('<context>')[0].split()}")

    return play


async def begin(parley: Parley) -> tuple[asyncio.Event, Accepted]:
    """Begin a turn whose answer waits for the event that is returned."""
    gate = asyncio.Event()
    parley.model.play(one_by_one(gate))
    accepted = await parley.accept("first")
    await parley.model.until(1)
    return gate, accepted


async def test_a_turn_goes_on_while_somebody_else_waits_for_the_same_event(parley: Parley) -> None:
    gate, accepted = await begin(parley)
    other = asyncio.create_task(parley.app.events.response(accepted.inbox_id))

    await cancel_if_abandoned(parley.app.database, parley.app.events, accepted.inbox_id)
    gate.set()

    assert (await other).error is None


async def test_a_client_that_reconnects_at_once_finds_the_turn_running(parley: Parley) -> None:
    gate, accepted = await begin(parley)

    stack = asyncio.create_task(cancel_if_abandoned(parley.app.database, parley.app.events, accepted.inbox_id))
    await asyncio.sleep(0)
    returned = asyncio.create_task(parley.app.events.response(accepted.inbox_id))
    await stack
    gate.set()

    assert (await returned).error is None


async def test_a_reader_in_another_process_keeps_the_turn_too(
    parley: Parley, settings: Settings, address: Address
) -> None:
    gate, accepted = await begin(parley)
    async with open_parley(settings, address, parley.model, works=False) as elsewhere:
        other = asyncio.create_task(elsewhere.app.events.response(accepted.inbox_id))
        await asyncio.sleep(0)

        await cancel_if_abandoned(parley.app.database, parley.app.events, accepted.inbox_id)
        gate.set()

        assert (await other).error is None
    assert await parley.value("SELECT count(*) FROM turns WHERE stop_requested") == 0


async def test_messages_answered_together_go_on_until_the_last_caller_leaves(parley: Parley) -> None:
    gate, running = await begin(parley)
    together = [await parley.accept(text) for text in ("second", "third")]
    _, never = gated_answer("never said")
    parley.model.play(never)
    gate.set()
    await parley.app.events.response(running.inbox_id)
    await parley.model.until(2)
    waits = asyncio.create_task(parley.app.events.response(together[1].inbox_id))
    await asyncio.sleep(0)

    await cancel_if_abandoned(parley.app.database, parley.app.events, together[0].inbox_id)
    assert await parley.value("SELECT count(*) FROM turns WHERE stop_requested") == 0
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    await cancel_if_abandoned(parley.app.database, parley.app.events, together[1].inbox_id)

    for message in together:
        assert (await parley.app.events.response(message.inbox_id)).error == "stopped"


async def test_a_waiting_message_is_withdrawn_with_its_files(site: Site) -> None:
    gate = asyncio.Event()
    site.parley.model.play(one_by_one(gate))
    first = asyncio.create_task(site.posts("first"))
    await site.parley.model.until(1)
    file = {"filename": "a.txt", "data": base64.b64encode(b"once").decode()}
    second = BODY | {"content": "second", "platform_event_id": "2", "attachments": [file]}
    async with caller(site, url="/v1/messages", json=second, headers=ENDS):
        await until_waiting(site, 1)
    await until_waiting(site, 0)
    third = asyncio.create_task(site.posts("third"))
    await until_waiting(site, 1)
    gate.set()

    assert (await first).json()["content"] == "answer 1 to ['first']"
    assert (await third).json()["content"] == "answer 2 to ['third']"
    again = (await site.client.post("/v1/messages", json=second)).json()
    assert (again["turn_id"], again["content"], again["error"]) == (0, "Stopped.", "stopped")
    result = frames((await site.client.post("/v1/messages", json=second, headers=EVENTS)).text)
    assert [name for name, _ in result] == ["message", "turn_complete"]
    folder = site.parley.app.settings.parley_home / "files"

    async def is_gone() -> bool:
        return not any(path.is_file() for path in folder.rglob("a.txt"))

    await eventually(is_gone)


async def until_waiting(site: Site, count: int) -> None:
    """Return once so many messages wait for their turn."""
    query = "SELECT count(*) = :count FROM inbox WHERE status = 'waiting'"
    await eventually(lambda: site.parley.value(query, count=count))


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_that_is_stopped_ends_its_requests_and_no_turn(parley: Parley, way: str) -> None:
    gate = asyncio.Event()
    parley.model.play(one_by_one(gate))
    listening = listen(parley.app.settings)
    config = to_config(build_web(parley.app), http="httptools", lifespan="off")
    config.timeout_graceful_shutdown = 0
    server = Server(config)
    serving = asyncio.create_task(server.serve([listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        call = asyncio.create_task(client.post(**WAYS[way]))
        await parley.model.until(1)
        server.should_exit = True
        await serving
        await asyncio.gather(call, return_exceptions=True)
    gate.set()

    inbox_id = await parley.value("SELECT id FROM inbox")
    assert (await parley.app.events.response(inbox_id)).error is None
