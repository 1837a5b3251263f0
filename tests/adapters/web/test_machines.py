"""Several machines of one installation, each with a folder of its own: doors behind a balancer, workers elsewhere."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.web.conftest import BROWSER, BY_HAND, TOKEN
from tests.adapters.web.test_messages import frames
from tests.bench.children import read_line, running_child
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import child_environment
from tests.support.connections import connected
from tests.support.eventually import PATIENCE
from tests.support.forks import get_command
from tests.support.loopback import free_port
from tests.support.object_storage import serving_s3

NOTES = b"Buy oats and rye."


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """Settings of a file storage that every machine reaches."""
    with serving_s3() as port:
        yield {"S3_ENDPOINT": f"http://127.0.0.1:{port}", "S3_ACCESS_KEY": "one", "S3_SECRET_KEY": "two"}


@dataclass
class Machines:
    """The machines of one installation."""

    settings: Settings
    address: Address
    folder: Path
    shared: dict[str, str]
    stack: AsyncExitStack
    doors: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def start(self, *command: str, until: str, **own: str) -> list[str]:
        """Start a program on a machine of its own; return its first lines."""
        home = self.folder / f"machine-{next(self.numbers)}"
        env = child_environment(self.settings, self.address, home) | {"PORT": "0"} | self.shared | own
        child = await self.stack.enter_async_context(running_child(*get_command(), *command, env=env))
        lines = [await read_line(child, PATIENCE)]
        while until not in lines[-1]:
            lines.append(await read_line(child, PATIENCE))
        return lines

    async def count_workers(self) -> int:
        """Return how many workers there are, on all machines."""
        async with connected(self.address) as owner:
            return int(await owner.fetchval("SELECT count(*) FROM workers"))

    async def open_door(self, **own: str) -> list[str]:
        """Start a web server without a worker."""
        port = free_port()
        lines = await self.start("adapter", "web", until="database", PORT=str(port), **own)
        self.doors.append(f"http://127.0.0.1:{port}")
        return lines


class Balanced(httpx.AsyncBaseTransport):
    """A balancer without sticky sessions: each request goes to the next door."""

    def __init__(self, doors: list[str]) -> None:
        self._doors = itertools.cycle(map(httpx.URL, doors))
        self._transport = httpx.AsyncHTTPTransport()
        self.taken: list[tuple[int | None, str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass it on."""
        door = next(self._doors)
        self.taken.append((door.port, request.url.path))
        url = request.url.copy_with(host=door.host, port=door.port)
        return await self._transport.handle_async_request(
            httpx.Request(
                request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
            )
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


@pytest.fixture
async def machines(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path, s3: dict[str, str]
) -> AsyncIterator[Machines]:
    async with AsyncExitStack() as stack:
        shared = {"PUBLIC_URL": "http://chat.test", "API_TOKEN": TOKEN, **s3}
        yield Machines(settings, address, tmp_path, shared, stack)


@asynccontextmanager
async def browser(machines: Machines, key: str = "") -> AsyncIterator[tuple[httpx.AsyncClient, Balanced]]:
    balanced = Balanced(machines.doors)
    async with httpx.AsyncClient(
        base_url="http://chat.test", headers=BROWSER, transport=balanced, timeout=PATIENCE
    ) as client:
        if key:
            assert (await client.get(f"/?{key}", headers=BY_HAND)).status_code == 200
        yield client, balanced


def find_key(lines: list[str]) -> str:
    """Return the query of the link that a start prints."""
    [page] = [line.split()[1] for line in lines if line.lstrip().startswith("page")]
    return urlsplit(page).query


def to_form(**fields: str) -> list[tuple[str, Any]]:
    return [(name, (None, value)) for name, value in fields.items()]


@pytest.mark.timeout(300)
async def test_doors_without_workers_take_turns_with_each_request_of_a_chat(
    machines: Machines, model: OpenAIStub
) -> None:
    document = {"title": "List", "content": "oats and rye", "format": "md"}
    model.play(
        [
            Answer(tool_calls=[("file_manager__read_document", {"file_id": 1})]),
            Answer(tool_calls=[("file_manager__create_document", document)]),
            Answer("Word for word, here is your list. " * 20, chunk_delay=0.01),
        ]
    )
    key = find_key(await machines.open_door())
    await machines.open_door()
    await machines.start("worker", until="ready")

    async with browser(machines, key) as (client, balanced):
        page = await client.get("/")
        files = [*to_form(chat="c1", event_id="e1", content="make a list of it"), ("files", ("notes.txt", NOTES))]
        streamed = frames((await client.post("/chat/messages", files=files)).text)
        again = frames((await client.get("/chat/events", params={"event_id": "e1"})).text)
        history = await client.get("/page/chats/c1/messages")
        [made] = [file for name, data in streamed if name == "message" for file in data["files"]]
        link = urlsplit(made["url"])
        downloads = [await client.get(f"{link.path}?{link.query}") for _ in range(4)]

    assert page.status_code == 200
    # What the worker said while it ran came through the door's stream, piece by piece.
    assert sum(name == "text_delta" for name, _ in streamed) > 3
    assert streamed[-1][0] == again[-1][0] == "turn_complete"
    assert "Buy oats and rye." in str(model.requests[1].body["messages"])
    assert "Word for word" in history.text
    assert [("oats and rye" in file.text, file.status_code) for file in downloads] == [(True, 200)] * 4
    assert len({port for port, _ in balanced.taken}) == 2


@pytest.mark.timeout(300)
async def test_a_link_opens_the_page_once_whichever_door_it_comes_to(machines: Machines) -> None:
    key = find_key(await machines.open_door())
    await machines.open_door()

    async with browser(machines) as (first, _):
        answers = [(await first.get(f"/?{key}", headers=BY_HAND)).status_code]
        first.cookies.clear()
        answers.append((await first.get(f"/?{key}", headers=BY_HAND)).status_code)

    assert answers == [200, 401]


@pytest.mark.timeout(300)
async def test_a_door_without_a_worker_keeps_the_message_and_its_caller_gets_the_answer_once_one_runs(
    machines: Machines, model: OpenAIStub
) -> None:
    model.play([Answer("I was asleep.")])
    await machines.open_door()
    async with httpx.AsyncClient(
        base_url=machines.doors[0], headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE
    ) as client:
        ready = await client.get("/readyz")
        body = {"platform": "test", "platform_user_id": "ann", "platform_channel_id": "dm", "content": "hello"}
        asking = asyncio.create_task(client.post("/v1/messages", json=body))
        await machines.start("worker", until="ready")
        answer = (await asking).json()

    assert (ready.status_code, ready.json()["workers"]) == (200, 0)
    assert "Start one: parley worker" in ready.json()["message"]
    assert answer["content"] == "I was asleep."


@pytest.mark.timeout(300)
async def test_a_terminal_shows_what_a_worker_on_another_machine_says(machines: Machines, model: OpenAIStub) -> None:
    model.play([Answer("From far away.")])
    await machines.start("worker", until="ready")

    env = child_environment(machines.settings, machines.address, machines.folder / "laptop") | machines.shared
    async with running_child(*get_command(), "chat", env=env) as chat:
        output, _ = await asyncio.wait_for(chat.communicate(b"hello\n"), PATIENCE)

    assert output.decode().strip() == "From far away."
    assert await machines.count_workers() == 1
