"""What goes wrong and does not show, on every platform: repetition, refusals, interruptions, crashes, floods."""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import psutil  # type: ignore[import-untyped]  # the package has no types
import pytest

from adapters.chat.undelivered import INTERRUPTED
from shared.db.database import Address
from tests.adapters.contract.driver import ANN, BOB, Capability, PlatformDriver
from tests.bench.children import running_child, until_one
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.chat_scene import child_environment
from tests.support.forks import get_command

COUNT = "SELECT count(*) FROM inbox"
DIRECT_INBOX = "SELECT content FROM inbox WHERE platform_channel_id = :channel ORDER BY id"
# A row as a worker leaves it that dies after the platform has taken the reply, and before it has noted that.
FORGET_DELIVERY = (
    "UPDATE outbox SET status = 'pending', delivered_at = NULL, platform_message_id = NULL, claimed_until = now()"
)
DEAD_WORKERS = "DELETE FROM workers"
# As it is some minutes after the process has died.
MINUTES_LATER = "UPDATE outbox SET claimed_until = now()"
NEARLY_OVER = "UPDATE outbox SET claimed_until = now() + interval '1 minute'"
RENEWED = "SELECT count(*) FROM outbox WHERE claimed_until > now() + interval '2 minutes'"
WAITS_FOR_MEMORIES = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'memories'::regclass"
# Programs that are connected, by their own ids: those of forks, and not of what stands for them.
PROCESSES = """
SELECT DISTINCT CAST(substring(application_name FROM 'process ([0-9]+)') AS integer) AS pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'parley, process %'
"""
WAITING_PROGRAM = """
SELECT CAST(substring(application_name FROM 'process ([0-9]+)') AS integer) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
# What a caller of the HTTP API may have named as a channel and thread of the platform.
NAMED_BY_A_CALLER = """
INSERT INTO conversations (platform, platform_channel_id, platform_thread_id, is_direct)
VALUES (:platform, :name, NULL, true), (:platform, :name, :name, false)
"""
FLOOD, CHANNELS = 20, 5
NUMBER = re.compile(r"question (\d+)\b")


async def list_processes(owner: asyncpg.Connection) -> set[int]:
    """Return the ids of the programs that are connected."""
    return {row["pid"] for row in await owner.fetch(PROCESSES)}


async def find_other_program(owner: asyncpg.Connection, pids: set[int]) -> psutil.Process:
    """Return the only program that is connected beside these: of two, one may be that of the test."""
    (pid,) = await list_processes(owner) - pids
    return psutil.Process(pid)


def numbers_back(body: Body, _number: int) -> Answer:
    """Answer with the numbers of the questions that are asked, without what is quoted beside them."""
    text = re.split(r"<context>|\[Said by others", last_user_text(body))[0]
    return Answer("".join(f"answer {number}. " for number in NUMBER.findall(text)))


async def test_an_event_that_is_delivered_twice_is_answered_once(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Once."), Answer("Then.")])

    question = await talk.say(ANN, "hello", talk.channel)
    await talk.deliver_again(question)
    await talk.hear(talk.channel)
    await talk.deliver_again(question)
    await talk.say(ANN, "again", talk.direct(ANN))

    assert await talk.hear(talk.direct(ANN)) == ["Then."]
    assert talk.texts(talk.channel) == ["Once."]
    assert await talk.scene.value(COUNT) == 2


async def test_refusals_for_their_number_are_waited_for(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("One."), Answer("Two.")])
    talk.refuse_posts(2)

    await talk.say(ANN, "hello", talk.direct(ANN))
    await talk.say(BOB, "hello", talk.direct(BOB))
    await talk.until_delivered(2)

    assert sorted(talk.texts(talk.direct(ANN)) + talk.texts(talk.direct(BOB))) == ["One.", "Two."]
    assert talk.rate_limited() == 2


async def test_a_reply_whose_confirmation_is_lost_is_shown_once(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Only once.")])
    talk.lose_confirmation()

    await talk.say(ANN, "hello", talk.channel)
    await talk.until_delivered()

    assert talk.texts(talk.channel) == ["Only once."]


async def test_a_reply_whose_worker_died_after_sending_it_is_shown_once(
    driver: PlatformDriver, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Only once."), Answer("Directly.")])
    async with driver.open(address, model):
        await driver.say(ANN, "hello", driver.channel)
        await driver.say(ANN, "hello", driver.direct(ANN))
        await driver.until_delivered(2)
    async with driver.open(address, model, works=False):
        await driver.scene.sql(FORGET_DELIVERY)

    async with driver.open(address, model):
        await driver.until_delivered(2)

    assert sorted(driver.texts(driver.channel) + driver.texts(driver.direct(ANN))) == ["Directly.", "Only once."]


async def test_a_connection_that_is_cut_comes_back_and_loses_nothing(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Still here.")])

    await talk.cut_connections()
    await talk.say(ANN, "are you back?", talk.direct(ANN))

    assert await talk.hear(talk.direct(ANN)) == ["Still here."]
    assert await talk.scene.value(COUNT) == 1


async def test_what_was_missed_while_nobody_listened_is_answered_in_order(
    driver: PlatformDriver, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Before.")] * 2)
    place = driver.direct(ANN)
    async with driver.open(address, model):
        await driver.say(ANN, "hello to all", driver.channel)
        await driver.hear(driver.channel)
        root = await driver.say(ANN, "hello", place)
        await driver.hear(place)
        await driver.until_delivered(2)
        await driver.until_settled()
        for name in ("no such channel", "1", "🐸"):
            await driver.scene.sql(NAMED_BY_A_CALLER, platform=driver.name, name=name)
    unknown = await driver.add_channel("never-spoken-in")
    for text in ("first", "second", "third"):
        await driver.say(ANN, text, driver.conversation(root), is_delivered=False)
    await driver.say(BOB, "not for you", driver.channel, calls=False, is_delivered=False)
    await driver.say(BOB, "over here", unknown, is_delivered=False)
    await driver.say(BOB, "for you", driver.channel, is_delivered=False)

    questions = {"hello to all", "hello", "first", "second", "third", "for you"}
    if Capability.CATCH_UP_ANYWHERE in driver.capabilities:
        questions.add("over here")
    async with driver.open(address, model):
        await driver.scene.until_value(len(questions), COUNT)
        await driver.scene.until_value(0, "SELECT count(*) FROM inbox WHERE status <> 'answered'")
        assert {row.content for row in await driver.scene.sql("SELECT content FROM inbox")} == questions
        in_order = await driver.scene.sql(DIRECT_INBOX, channel=place.channel)
        assert in_order == [("hello",), ("first",), ("second",), ("third",)]

    prompts = "\n".join(str(request.body["messages"]) for request in model.requests)
    assert prompts.index("first") < prompts.index("second") < prompts.index("third")


async def test_a_message_that_a_failover_of_the_database_has_lost_is_read_again(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Before."), Answer("After.")])
    app, place = talk.scene.parley.app, talk.direct(ANN)
    root = await talk.say(ANN, "hello", place)
    await talk.hear(place)
    await talk.until_delivered()
    last_commit = app.clock.now()
    # The platform does not bring it again by itself: for it, the message was taken.
    await talk.say(ANN, "lost", talk.conversation(root), is_delivered=False)

    app.events.failovers.tell(last_commit)

    await talk.scene.until_value(2, "SELECT count(*) FROM inbox WHERE status = 'answered'")
    assert await talk.scene.sql("SELECT content FROM inbox ORDER BY id") == [("hello",), ("lost",)]


async def test_a_flood_is_answered_completely_within_the_platforms_limits(talk: PlatformDriver) -> None:
    talk.scene.model.play(numbers_back)
    places = [await talk.add_channel(f"channel-{number}") for number in range(CHANNELS)]
    await talk.limit_rate()
    talk.refuse_posts(5)

    for number in range(FLOOD):
        await talk.say((ANN, BOB)[number % 2], f"question {number}", places[number % CHANNELS])
    await talk.scene.until_value(FLOOD, "SELECT count(*) FROM inbox WHERE status = 'answered'")
    await talk.scene.until_value(0, "SELECT count(*) FROM outbox WHERE status <> 'delivered'")

    assert talk.rate_limited() >= 5
    for index, place in enumerate(places):
        numbers = re.findall(r"answer (\d+)\.", " ".join(await talk.hear(place)))
        assert sorted(map(int, numbers)) == list(range(index, FLOOD, CHANNELS))


async def test_a_slow_platform_changes_nothing(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Slow " * 3 + "but sure.", chunk_chars=4, chunk_delay=0.3), Answer("And again.")])
    talk.slow_down(0.4)

    await talk.say(ANN, "hello", talk.channel)
    await talk.say(BOB, "hello", talk.direct(BOB))
    await talk.until_delivered(2)

    assert sorted(talk.texts(talk.channel) + talk.texts(talk.direct(BOB))) == ["And again.", "Slow Slow Slow but sure."]
    assert talk.refusals() == []


@pytest.mark.timeout(300)
async def test_a_reply_is_shown_once_whenever_its_worker_is_killed(
    driver: PlatformDriver, address: Address, model: OpenAIStub, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    env = child_environment(driver.scene.settings, address, tmp_path) | driver.environment()
    model.play([Answer("Only once.")])
    async with driver.open(address, model, works=False):
        await driver.say(ANN, "hello", driver.channel)
        await driver.scene.until_value(1, COUNT)
    # The first dies before the platform has the message, the second after it, before it knows the message's id.
    for number, after in enumerate((False, True), 1):
        driver.fall_silent(after=after)
        async with running_child(*get_command(), "worker", env=env) as worker:
            await driver.until_silent(number)
            worker.kill()
            await worker.wait()
        await owner.execute(DEAD_WORKERS)
        await owner.execute("UPDATE outbox SET claimed_until = now()")

    async with running_child(*get_command(), "worker", env=env):
        await until_one(owner, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

    assert await driver.wait(lambda: driver.texts(driver.channel)) == ["Only once."]
    assert len(model.requests) == 1


@pytest.mark.timeout(300)
async def test_who_has_given_a_command_is_told_when_its_process_is_killed_while_it_runs(
    driver: PlatformDriver, address: Address, model: OpenAIStub, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    env, place = child_environment(driver.scene.settings, address, tmp_path) | driver.environment(), driver.direct(ANN)
    async with running_child(*get_command(), "adapter", driver.name, env=env) as adapter:
        await driver.until_connected()
        async with owner.transaction():
            await owner.execute("LOCK TABLE memories")
            await driver.say(ANN, "/memory", place)
            await until_one(owner, WAITS_FOR_MEMORIES)
            adapter.kill()
            await adapter.wait()
    await driver.until_disconnected()
    await owner.execute(MINUTES_LATER)

    async with running_child(*get_command(), "worker", env=env):
        await driver.wait(lambda: driver.said(place))
        await until_one(owner, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    assert driver.said(place) == [INTERRUPTED.format(name="memory").replace("/", driver.command_sign)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("after", [False, True])
async def test_the_answer_to_a_command_is_shown_once_when_its_process_is_killed_meanwhile(
    driver: PlatformDriver, address: Address, owner: asyncpg.Connection, tmp_path: Path, *, after: bool
) -> None:
    env, place = child_environment(driver.scene.settings, address, tmp_path) | driver.environment(), driver.direct(ANN)
    async with running_child(*get_command(), "adapter", driver.name, env=env) as adapter:
        await driver.until_connected()
        driver.fall_silent(after=after)
        await driver.say(ANN, "/memory", place)
        await driver.until_silent(1)
        adapter.kill()
        await adapter.wait()
    await driver.until_disconnected()
    await owner.execute(MINUTES_LATER)

    async with running_child(*get_command(), "worker", env=env):
        await until_one(owner, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    (answer,) = await driver.wait(lambda: driver.said(place))
    assert "remember" in answer


async def test_a_command_that_lasts_keeps_its_note_and_wants_no_worker_meanwhile(
    talk: PlatformDriver, owner: asyncpg.Connection
) -> None:
    place = talk.direct(ANN)
    async with owner.transaction():
        await owner.execute("LOCK TABLE memories")
        await talk.say(ANN, "/memory", place)
        await until_one(owner, WAITS_FOR_MEMORIES)
        # As where it runs for minutes already.
        await talk.scene.sql(NEARLY_OVER)
        assert await talk.scene.value("SELECT depth FROM admin.queue_depth") == 0
        await talk.scene.until_value(1, RENEWED)

    (answer,) = await talk.wait(lambda: talk.said(place))
    assert "remember" in answer
    await talk.scene.until_value(0, "SELECT count(*) FROM outbox")


@pytest.mark.timeout(300)
async def test_a_command_whose_process_was_frozen_is_not_answered_beside_what_is_said_of_the_interruption(
    driver: PlatformDriver, address: Address, model: OpenAIStub, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    env, place = child_environment(driver.scene.settings, address, tmp_path) | driver.environment(), driver.direct(ANN)
    log = tmp_path / "log"
    async with running_child(*get_command(), "adapter", driver.name, env=env, errors=log):
        await driver.until_connected()
        async with owner.transaction():
            await owner.execute("LOCK TABLE memories")
            await driver.say(ANN, "/memory", place)
            await until_one(owner, WAITS_FOR_MEMORIES)
            frozen = psutil.Process(await owner.fetchval(WAITING_PROGRAM))
            frozen.suspend()
            await owner.execute(MINUTES_LATER)
        try:
            async with running_child(*get_command(), "worker", env=env):
                await until_one(owner, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
        finally:
            frozen.resume()
        async with asyncio.timeout(60):
            while "reply_sent_by_another_process" not in log.read_text():  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.05)
    sentence = INTERRUPTED.format(name="memory").replace("/", driver.command_sign)
    assert await driver.wait(lambda: driver.said(place)) == [sentence]


@pytest.mark.timeout(300)
async def test_an_answer_goes_on_in_the_same_message_when_its_worker_is_killed(
    driver: PlatformDriver, address: Address, model: OpenAIStub, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    env = child_environment(driver.scene.settings, address, tmp_path) | driver.environment()
    model.play([Answer("One two three four five six seven.", end=asyncio.Event()), Answer("All seven.")])
    async with (
        running_child(*get_command(), "adapter", driver.name, env=env),
        running_child(*get_command(), "worker", env=env) as first,
    ):
        await driver.until_connected()
        await driver.say(ANN, "count", driver.channel)
        (live,) = await driver.wait(lambda: driver.posts(driver.channel), 100)
        while await owner.fetchval("SELECT live_message_id FROM turns") is None:
            await owner.execute("SELECT pg_sleep(0.05)")
        first.kill()
        await first.wait()
        await owner.execute(DEAD_WORKERS)
        async with running_child(*get_command(), "worker", env=env):
            await driver.wait(lambda: driver.texts(driver.channel) == ["All seven."], 100)
    assert [post.id for post in driver.posts(driver.channel)] == [live.id]


async def test_a_worker_that_was_frozen_before_it_posted_leaves_the_reply_to_the_one_that_posts(
    driver: PlatformDriver, address: Address, model: OpenAIStub, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    env = child_environment(driver.scene.settings, address, tmp_path) | driver.environment()
    log, place = tmp_path / "log", driver.direct(ANN)
    model.play([Answer("Only once.")])
    # So long that the worker is frozen while it waits, also on a busy machine, where a live message is refused before.
    driver.refuse_posts(5, seconds=5)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running_child(*get_command(), "adapter", driver.name, env=env))
        await driver.until_connected()
        adapter = await list_processes(owner)
        await stack.enter_async_context(running_child(*get_command(), "worker", env=env, errors=log))
        await driver.say(ANN, "hello", place)
        before, count = 0, driver.rate_limited()
        while not await owner.fetchval("SELECT EXISTS (SELECT FROM outbox)"):
            before, count = count, driver.rate_limited()
            await owner.execute("SELECT pg_sleep(0.02)")
        await driver.wait(lambda: driver.rate_limited() > before, 100)
        late = await find_other_program(owner, adapter)
        # The turn is committed, and the worker has checked its claim before it began to wait for the platform.
        late.suspend()
        driver.allow_posts()
        try:
            async with running_child(*get_command(), "worker", env=env):
                await driver.wait(lambda: driver.texts(place), 100)
                await until_one(owner, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
            driver.forget_keys()
        finally:
            late.resume()
        async with asyncio.timeout(30):
            while "reply_sent_by_another_process" not in log.read_text():  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(0.05)
    assert await driver.wait(lambda: driver.texts(place)) == ["Only once."]
