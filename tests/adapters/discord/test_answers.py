"""How an answer looks on Discord: short ones are one post, slow ones grow, long ones come in parts or as a file."""

import asyncio
from itertools import pairwise
from typing import Any

import asyncpg
import pytest

from adapters.base import key_of
from adapters.discord.sending.reply import to_nonce
from agent.queue.outbox import Reply
from shared.db.database import Address
from shared.messages import Permission, Place
from shared.tools import Tool, ToolContext
from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Fault, Json, Sent
from tests.standins.discord.rules import MEGABYTE
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.connections import begin_again


def edits(server: Scene) -> list[Sent]:
    return server.discord.sent("PATCH", "/messages/")


async def test_a_quick_answer_is_one_post_without_typing(server: Scene) -> None:
    server.model.play([Answer("Quick."), Answer("Quicker.")])
    await server.ann.says("warm up", server.ann.dm())
    await server.ann.hears(server.ann.dm())
    server.discord.journal.clear()

    await server.ann.says("hello", server.ann.dm())
    await server.ann.hears(server.ann.dm(), 2)

    assert [(request.method, request.path.rsplit("/", 1)[-1]) for request in server.discord.journal] == [
        ("POST", "messages")
    ]


async def test_a_slow_answer_is_live_text_with_at_most_one_edit_a_second(server: Scene) -> None:
    text = " ".join(f"word{number}" for number in range(40))
    server.model.play([Answer(text, delay=1.2, chunk_chars=8, chunk_delay=0.1)])

    await server.ann.says("slowly", server.ann.dm())
    await server.discord.until(
        lambda: server.ann.reads(server.ann.dm()) and server.ann.reads(server.ann.dm())[0]["content"] == text
    )
    await server.until_value("delivered", "SELECT status FROM outbox")

    assert len(server.ann.reads(server.ann.dm())) == 1
    assert server.discord.sent("POST", "/typing")
    moments = [server.discord.sent("POST", "/messages")[0].at, *(edit.at for edit in edits(server))]
    assert len(moments) >= 3
    assert all(later - earlier >= 0.95 for earlier, later in pairwise(moments))
    grown = [edit.body["content"] for edit in edits(server)]
    assert all(text.startswith(stage) for stage in grown)
    assert await server.value("SELECT live_message_id FROM turns") == server.ann.reads(server.ann.dm())[0]["id"]


async def test_tools_that_run_are_a_line_that_goes_away(server: Scene) -> None:
    hold = asyncio.Event()
    message = await server.ann.says("slow file", server.ann.dm(), is_heard=False)

    async def second(_body: object, _number: int) -> Answer:
        await hold.wait()
        return Answer("It is 4.")

    calls = [("calculator__calculate", {"expression": "2+2"})]
    answers = [Answer("Let me see.", tool_calls=calls, chunk_delay=0.4, chunk_chars=4)]
    server.model.play(lambda body, number: answers.pop() if answers else second(body, number))
    await server.discord.tell_message("MESSAGE_CREATE", message)
    await server.discord.until(lambda: any("Let me" in post["content"] for post in server.ann.reads(server.ann.dm())))
    hold.set()

    await server.until_value("delivered", "SELECT status FROM outbox")
    assert await server.ann.hears(server.ann.dm()) == ["It is 4."]


@pytest.mark.parametrize("text", ["The e", "The end."])
async def test_the_live_message_of_a_worker_that_died_is_the_one_that_is_finished(server: Scene, text: str) -> None:
    server.model.play([Answer("The end.", delay=1.5)])
    dm = server.ann.dm()

    question = await server.ann.says("hello", dm)
    turn_id = await server.discord.until(lambda: server.discord.sent("POST", "/typing")) and await server.value(
        "SELECT id FROM turns"
    )
    # What a worker that died between its post and the note of it has left behind.
    stop = [{"type": 1, "components": [{"type": 2, "style": 2, "label": "Stop", "custom_id": "stop"}]}]
    orphan = server.discord.world.keep_message(dm, server.discord.world.bot, text, components=stop)
    place = Place("discord", None, dm["id"], is_direct=True)
    reply = Reply(1, turn_id, "discord", place=place, reply_to=question["id"], content="", files=())
    nonce = to_nonce(key_of(server.parley.app.secrets, reply))
    server.discord.remember_nonce({"nonce": f"{nonce}-0", "enforce_nonce": True}, orphan)

    await server.until_value("delivered", "SELECT status FROM outbox")
    assert await server.ann.hears(dm) == ["The end."]


async def test_files_go_up_to_what_the_server_takes_and_links_stand_for_others(server: Scene) -> None:
    async def make(context: ToolContext, megabytes: int) -> dict[str, Any]:
        """Make a file."""
        file = await context.storage.create(f"{megabytes}.bin", bytes(megabytes * MEGABYTE))
        return {"file_id": file.file_id, "url": file.url}

    server.parley.app.tools.mcp.offer([Tool(make, Permission.GUEST, module="office", acts=False)])
    await server.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Make.', 'discord')")
    sizes = (9, 30, 9, 8)
    pairs = [(Answer(tool_calls=[("office__make", {"megabytes": size})]), Answer(f"{size}.")) for size in sizes]
    server.model.play([answer for pair in pairs for answer in pair])

    async def asks(channel: Json, count: int) -> Json:
        await server.ann.asks("make it", channel)
        await server.ann.hears(channel, count)
        return server.ann.reads(channel)[-1]

    assert [attachment["filename"] for attachment in (await asks(server.ann.dm(), 1))["attachments"]] == ["9.bin"]
    await server.sql("UPDATE users SET token_budget_monthly = NULL")
    server.guild["premium_tier"] = 2
    assert [attachment["filename"] for attachment in (await asks(server.general, 1))["attachments"]] == ["30.bin"]
    # Discord takes less than it said: that is found out once.
    server.guild["premium_tier"], server.discord.file_limit = 0, 5 * MEGABYTE
    assert "9.bin: <http" in (await asks(server.general, 2))["content"]
    assert "8.bin: <http" in (await asks(server.general, 3))["content"]
    assert [request.status for request in server.discord.refusals] == [413, 413]


async def test_the_files_of_a_slow_answer_are_in_its_message_once_as_many_as_one_request_takes(server: Scene) -> None:
    async def make(context: ToolContext, name: str) -> dict[str, Any]:
        """Make a file."""
        file = await context.storage.create(name, bytes(7 * MEGABYTE))
        return {"file_id": file.file_id, "url": file.url}

    server.parley.app.tools.mcp.offer([Tool(make, Permission.GUEST, module="office")])
    await server.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Make.', 'discord')")
    # Two are larger than the limit of each, four than that of a request.
    calls = [("office__make", {"name": f"{number}.bin"}) for number in range(4)]
    server.model.play(
        [Answer("Let me see. " * 3, tool_calls=calls, chunk_chars=4, chunk_delay=0.3), Answer("Here they are.")]
    )
    # The edit takes effect, and its confirmation is lost: it is made again.
    await server.ann.says("make them", server.ann.dm())
    (live,) = await server.discord.until(lambda: server.ann.reads(server.ann.dm()))
    server.discord.faults.append(Fault("PATCH", live["id"], 500, after=True, times=1))

    await server.until_value("delivered", "SELECT status FROM outbox")

    (post,) = server.ann.reads(server.ann.dm())
    first, _, link = post["content"].splitlines()
    assert (post["id"], first) == (live["id"], "Here they are.")
    # All tools run at once, so any file may be the last.
    names = [*(attachment["filename"] for attachment in post["attachments"]), link.partition(": <http")[0]]
    assert sorted(names) == ["0.bin", "1.bin", "2.bin", "3.bin"]
    assert 413 not in {request.status for request in server.discord.sent()}


async def test_a_fresh_database_beside_an_old_channel_overwrites_no_older_answer(
    scene: Scene, address: Address, owner: asyncpg.Connection, model: OpenAIStub
) -> None:
    model.play([Answer("The first."), Answer("The second.")])
    async with scene.opened(address, model):
        await scene.ann.says("hello", scene.ann.dm())
        await scene.ann.hears(scene.ann.dm())
        await scene.until_value("delivered", "SELECT status FROM outbox")
        await begin_again(owner)

        await scene.ann.says("hello again", scene.ann.dm())

        assert await scene.ann.hears(scene.ann.dm(), 2) == ["The first.", "The second."]
        assert await scene.value("SELECT max(id) FROM turns") == 1


async def test_without_the_right_to_attach_files_a_very_long_answer_comes_in_parts(server: Scene) -> None:
    server.discord.world.forbid(server.general, "attach_files")
    server.model.play([Answer("\n\n".join(f"Paragraph {number}. " + "word " * 100 for number in range(40)))])

    await server.ann.asks("a book, please", server.general)
    await server.until_value("delivered", "SELECT status FROM outbox")

    parts = [post["content"] for post in server.ann.reads(server.general)]
    assert len(parts) > 6
    assert "Paragraph 39." in parts[-1]


async def test_without_the_right_to_attach_files_there_is_a_link(server: Scene) -> None:
    server.discord.world.forbid(server.general, "attach_files")
    arguments = {"title": "Bikes", "content": "Bikes are green.", "format": "txt"}
    server.model.play([Answer(tool_calls=[("file_manager__create_document", arguments)]), Answer("Here it is.")])

    await server.ann.asks("write it down", server.general)

    (answer,) = await server.ann.hears(server.general)
    assert answer.startswith("Here it is.")
    assert "/files/" in answer


async def test_without_the_right_to_read_the_history_it_answers_without_a_reference(server: Scene) -> None:
    server.discord.world.forbid(server.general, "read_message_history")
    server.model.play([Answer("Hello.")])

    await server.ann.asks("hello", server.general)

    assert await server.ann.hears(server.general) == ["Hello."]


async def test_a_live_message_that_somebody_deletes_does_not_take_the_answer_along(server: Scene) -> None:
    server.model.play([Answer("One two three four five six.", chunk_chars=4, chunk_delay=0.4)])
    dm = server.ann.dm()

    await server.ann.says("slowly", dm)
    posts = await server.discord.until(lambda: server.ann.reads(dm))
    await server.ann.deletes(posts[0])
    await server.until_value("delivered", "SELECT status FROM outbox")

    assert [post["content"] for post in server.ann.reads(dm)] == ["One two three four five six."]


async def test_emojis_count_twice_and_no_part_is_too_long(server: Scene) -> None:
    server.model.play([Answer("🐸" * 3000)])

    await server.ann.says("bikes", server.ann.dm())
    await server.until_value("delivered", "SELECT status FROM outbox")

    assert "".join(post["content"] for post in server.ann.reads(server.ann.dm())) == "🐸" * 3000
    assert server.discord.refusals == []
