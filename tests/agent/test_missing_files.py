"""Attached files that can't be fetched or stored: the model and the person learn it; waiting for them stalls nobody."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.db.database import Address
from shared.messages import Attachment
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.loopback import Request, Server, by_path, reply, serving
from tests.support.parley import open_parley

SENTENCE = "(I could not get these files, and answered without them: {names}.)"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with one good file, one that it does not find, and one that never ends."""

    async def slowly(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx")
        await writer.drain()
        await asyncio.Event().wait()

    async with serving(by_path({"/good.txt": reply(b"good"), "/slow.txt": slowly})) as server:
        yield server


@pytest.fixture
def settings(settings: Settings, server: Server) -> Settings:
    """Settings that allow the server, with a single slot."""
    return settings.model_copy(update={"egress_allow": (server.origin,), "max_turns": 1})


async def test_the_model_and_the_person_learn_which_files_are_missing(
    settings: Settings, address: Address, model: OpenAIStub, server: Server
) -> None:
    prompts: list[str] = []

    def answer(body: Body, _number: int) -> Answer:
        prompts.append(last_user_text(body))
        return Answer("Here you are.")

    model.play(answer)
    files = [
        Attachment("good.txt", "text/plain", 4, url=f"{server.origin}/good.txt"),
        Attachment("gone.txt", "text/plain", 4, url=f"{server.origin}/gone.txt"),
        Attachment("large.txt", "text/plain", 3, url=f"{server.origin}/good.txt"),
    ]
    async with open_parley(settings, address, model) as parley:
        reply = await parley.ask("look at these", attachments=files)
        rows = await parley.sql("SELECT filename, status FROM file_records ORDER BY id")

    assert reply.content == f"Here you are.\n\n{SENTENCE.format(names='gone.txt, large.txt')}"
    assert [tuple(row) for row in rows] == [
        ("good.txt", "stored"),
        ("gone.txt", "failed"),
        ("large.txt", "failed"),
    ]
    [prompt] = prompts
    assert "- gone.txt: The file can't be fetched: its server answered with status 404." in prompt
    assert "- large.txt: The answer of 127.0.0.1 is larger than 3 bytes." in prompt
    assert "- good.txt:" not in prompt


async def test_who_waits_for_a_slow_download_holds_no_slot(
    settings: Settings, address: Address, model: OpenAIStub, server: Server
) -> None:
    slow = Attachment("slow.txt", url=f"{server.origin}/slow.txt")
    async with open_parley(settings, address, model) as parley:
        for number in range(3):
            await parley.accept("look", user="cyd", channel=f"c{number}", attachments=[slow])
        async with asyncio.timeout(60):
            while not server.requests:  # noqa: ASYNC110  # the server notifies nobody
                await asyncio.sleep(0.01)

        reply = await parley.ask("hello", user="ann")

    assert reply.error is None
