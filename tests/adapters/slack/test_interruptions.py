"""Workers that die, or lose their connection, while a message is being posted: each question keeps one answer."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from adapters.base import key_of
from adapters.slack.platform import SlackPlatform
from adapters.slack.sending.sent import find_sent
from agent.queue.outbox import Reply
from shared.db.database import Address
from shared.messages import Place
from tests.adapters.slack.conftest import Scene
from tests.bench.children import running_child
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import Json
from tests.support.chat_scene import child_environment
from tests.support.forks import get_command

DELIVERED = "SELECT status FROM outbox ORDER BY id DESC LIMIT 1"
DEAD_WORKERS = "UPDATE workers SET last_heartbeat = now() - interval '1 hour'"


def messages_in(scene: Scene, channel: Json | None = None) -> list[tuple[str, bool]]:
    """Return the text of each of the app's messages, and whether it is still being streamed."""
    messages = scene.slack.world.messages[(channel or scene.general)["id"]].values()
    return [(message["text"], bool(message.get("is_streaming"))) for message in messages if "bot_id" in message]


async def test_a_stream_whose_confirmation_is_lost_becomes_the_answer(office: Scene) -> None:
    office.model.play([Answer("It is done.", chunk_chars=4, chunk_delay=0.8)])
    office.slack.fail("chat.startStream", is_lost=True)

    await office.ann.mentions(office.general, "slowly")
    await office.until_value("delivered", DELIVERED)

    assert messages_in(office) == [("It is done.", False)]
    assert office.refusals() in ([], [("chat.update", "streaming_state_conflict")])


async def test_a_live_message_whose_confirmation_is_lost_becomes_the_answer(office: Scene) -> None:
    office.model.play([Answer("It is done.", chunk_chars=4, chunk_delay=0.8)])
    office.slack.fail("chat.postMessage", is_lost=True)

    await office.ann.direct("slowly")
    await office.until_value("delivered", DELIVERED)

    assert messages_in(office, office.ann.dm) == [("It is done.", False)]


async def test_a_stream_that_slack_confirms_after_the_end_of_the_turn_becomes_the_answer(office: Scene) -> None:
    office.model.play([Answer("It is done.", chunk_chars=4, chunk_delay=0.6)])
    office.slack.fail("chat.startStream", seconds=8)

    await office.ann.mentions(office.general, "slowly")
    await office.until_value("delivered", DELIVERED)

    assert messages_in(office) == [("It is done.", False)]


@pytest.mark.timeout(300)
async def test_a_stream_that_a_killed_worker_has_just_begun_becomes_the_answer(
    scene: Scene, address: Address, model: OpenAIStub, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    env = child_environment(scene.settings, address, tmp_path) | scene.slack.environment()
    model.play([Answer("It is done, at long last.", end=asyncio.Event()), Answer("It is done again.")])
    scene.slack.fail("chat.startStream", seconds=30)
    async with scene.opened(address, model, works=False), running_child(*get_command(), "worker", env=env) as worker:
        await scene.ann.mentions(scene.general, "slowly")
        await scene.slack.until(lambda: scene.slack.calls("chat.startStream"))
        worker.kill()
        await worker.wait()
        assert await owner.fetchval("SELECT live_message_id FROM turns") is None
        await owner.execute(DEAD_WORKERS)

    async with scene.opened(address, model, listens=False):
        await scene.until_value("delivered", DELIVERED)

    assert messages_in(scene) == [("It is done again.", False)]


async def test_the_notice_that_a_turn_has_failed_takes_the_place_of_its_stream(office: Scene) -> None:
    end = asyncio.Event()
    office.model.play([Answer("It is done.", chunk_chars=4, end=end)])
    question = await office.ann.mentions(office.general, "slowly")
    await office.until_value(True, "SELECT live_message_id IS NOT NULL FROM turns")
    assert [is_open for _, is_open in messages_in(office)] == [True]
    # A turn whose workers have died three times: the apology knows nothing of the live message.
    await office.sql("UPDATE turns SET live_message_id = NULL, attempt = 4, status = 'failed', finished_at = now()")
    await office.sql("UPDATE inbox SET status = 'failed'")
    end.set()
    await office.sql(
        "INSERT INTO outbox (turn_id, adapter, platform, platform_server_id, platform_channel_id, platform_thread_id,"
        " is_direct, reply_to, content)"
        " SELECT turn_id, adapter, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct,"
        " platform_message_id, 'Something went wrong.' FROM inbox"
    )
    await office.until_value("delivered", DELIVERED)

    assert messages_in(office) == [("Something went wrong.", False)]
    assert office.ann.reads(office.general, question["ts"]) == ["Something went wrong."]


async def test_an_answer_to_a_typed_command_is_not_taken_for_a_stream(office: Scene) -> None:
    thread_ts = await office.ann.opens_assistant()
    question = await office.ann.direct("hello", thread_ts=thread_ts)
    await office.until_value("delivered", DELIVERED)
    await office.ann.direct("/help", thread_ts=thread_ts)
    await office.ann.hears(count=2)

    app, place = office.parley.app, Place("slack", office.slack.team_id, office.ann.dm["id"], thread=thread_ts)
    platform = app.senders["slack"]
    assert isinstance(platform, SlackPlatform)
    web = await platform.clients.get(office.slack.team_id)
    turn_id = await office.value("SELECT id FROM turns")
    reply = Reply(1, turn_id, "slack", place=place, reply_to=question["ts"], content="", files=())
    sent = await find_sent(app.database, web, reply, key=key_of(app.secrets, reply))

    assert (sent.parts, sent.surplus) == ({0: office.ann.written()[0]["ts"]}, ())


async def test_a_later_turn_in_the_thread_keeps_its_own_stream(office: Scene) -> None:
    office.model.play(
        [Answer("First."), Answer("Second answer, said slowly, word by word.", chunk_chars=14, chunk_delay=1.5)]
    )
    question = await office.ann.mentions(office.general, "one")
    await office.until_value("delivered", DELIVERED)
    first = office.ann.written(office.general)[0]
    del office.slack.world.messages[office.general["id"]][first["ts"]]
    await office.sql("UPDATE turns SET finished_at = now() - interval '1 minute'")

    await office.ann.posts(office.general, "two", thread_ts=question["ts"])
    await office.slack.until(lambda: office.slack.calls("chat.startStream"))
    await office.sql("UPDATE outbox SET status = 'pending', delivered_at = NULL, claimed_until = now()")
    await office.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

    assert sorted(messages_in(office)) == [("First.", False), ("Second answer, said slowly, word by word.", False)]
