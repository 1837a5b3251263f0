"""The release before serves on today's tables, so that a new release can be rolled out process by process."""

import asyncio
import os
import signal
import sys
import tarfile
from asyncio.subprocess import DEVNULL, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from shared.db.compatibility import list_revisions
from shared.db.database import VERSIONS, Address
from tests.bench.children import model_environment
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.loopback import free_port

# What this file is, and when it is replaced, stands in tests/releases/README.md.
RELEASE = Path(__file__).parent / "releases" / "before-0013.tar.xz"
TOKEN = "test-token"
MESSAGE = {"platform": "test", "platform_user_id": "ann", "platform_channel_id": "dm", "content": "hello"}


def unpack(folder: Path) -> str:
    """Unpack the release and return its revision."""
    with tarfile.open(RELEASE) as archive:
        # Python 3.11.2, Debian's, has no filters yet.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202  # our own archive
    return max(path.name.partition("_")[0] for path in (folder / "migrations" / "versions").glob("[0-9]*.py"))


@asynccontextmanager
async def running(release: Path, home: Path, address: Address, model: OpenAIStub) -> AsyncIterator[httpx.AsyncClient]:
    """Run `parley run` of the release on these tables; yield a client of it as soon as it is ready."""
    port = free_port()
    given = model_environment(model, home) | {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(release),
        "DATABASE_URL": address.libpq(as_owner=True),
        "PORT": str(port),
        "API_TOKEN": TOKEN,
    }
    log = home / "log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "adapters.cli", "run"),
            cwd=release,
            env=given,
            stdin=DEVNULL,
            stdout=output,
            stderr=STDOUT,
        )
    url, bearer = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {TOKEN}"}
    try:
        async with httpx.AsyncClient(base_url=url, headers=bearer, timeout=60) as client:
            await until_ready(client, process, log)
            yield client
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


def read(log: Path) -> str:
    return log.read_text("utf-8")


async def until_ready(client: httpx.AsyncClient, process: asyncio.subprocess.Process, log: Path) -> None:
    answer = "no answer"
    try:
        async with asyncio.timeout(60):
            while answer != '{"status":"ready"}':
                assert process.returncode is None, read(log)
                await asyncio.sleep(0.1)
                answer = await readiness(client)
    except TimeoutError:
        raise AssertionError(f"/readyz: {answer}\n{read(log)}") from None


async def readiness(client: httpx.AsyncClient) -> str:
    try:
        return (await client.get("/readyz")).text
    except httpx.TransportError as error:
        return str(error)


async def test_the_release_before_is_ready_on_the_tables_of_this_one_and_answers(
    address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    home, release = tmp_path / "home", tmp_path / "release"
    home.mkdir()
    assert unpack(release) in list_revisions(VERSIONS)[:-1]
    model.play([Answer("Hi Ann.")])

    async with running(release, home, address, model) as client:
        answer = await client.post("/v1/messages", json=MESSAGE)
        again = await client.get("/readyz")

    assert answer.json()["content"] == "Hi Ann.", answer.text
    assert again.status_code == 200
