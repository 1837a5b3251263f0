"""Slack's workers are killed one after another while Slack answers late: each question has one complete answer."""

import asyncio
import random
import re
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.slack.conftest import Scene, make_scene
from tests.bench.children import read_line, running_child
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, last_user_text
from tests.standins.slack import Json, Limits, SlackStandIn
from tests.support.chat_scene import COMMAND, child_environment

pytestmark = pytest.mark.soak
QUESTIONS, CHANNELS, WORKERS = 300, 10, 3
KILL_SECONDS, ASK_SECONDS, LATE_SECONDS, REST_SECONDS = 4.0, 0.5, 1.5, 240.0
POSTS = ("chat.postMessage", "chat.startStream", "chat.appendStream", "chat.stopStream", "chat.update")


def answers(body: Body, _number: int) -> Answer:
    """Repeat the number of the question, slowly enough to be shown live."""
    question = re.split(r"<context>|\[Said by others", last_user_text(body))[0]
    (number,) = re.findall(r"question (\d+)", question)[-1:]
    return Answer(f"This is the whole answer to question {number}.", chunk_chars=6, chunk_delay=0.35)


def replies(scene: Scene, question: Json, channel: Json) -> list[tuple[str, bool]]:
    """Return text and completeness of each of the app's messages below a question."""
    messages = scene.slack.world.messages[channel["id"]].values()
    ours = [message for message in messages if "bot_id" in message and message.get("thread_ts") == question["ts"]]
    return [(our["text"], not our.get("is_streaming")) for our in ours]


async def test_workers_that_are_killed_while_they_post_leave_one_answer_each(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(answers)
    async with SlackStandIn(limits=Limits(factor=10_000)) as slack, AsyncExitStack() as stack:
        scene = make_scene(slack, settings)
        for method in POSTS:
            slack.fail(method, seconds=LATE_SECONDS, times=10**9)
        env = child_environment(settings, address, tmp_path) | slack.environment()
        env["DEFAULT_GUEST_TOKEN_BUDGET"] = "1000000000"
        log = tmp_path / "log"
        await stack.enter_async_context(running_child(*COMMAND, "adapter", "slack", env=env, errors=log))
        await slack.socket.until()

        async def start() -> Process:
            worker = await stack.enter_async_context(running_child(*COMMAND, "worker", env=env, errors=log))
            await read_line(worker, REST_SECONDS)
            return worker

        workers, killed = [await start() for _ in range(WORKERS)], list[Process]()
        killing = asyncio.create_task(kill_workers(workers, start, killed))
        questions = await ask(scene)
        killing.cancel()
        await asyncio.gather(killing, return_exceptions=True)
        await start()

        def wrong() -> list[object]:
            results = [
                (number, replies(scene, question, channel)) for number, (question, channel) in enumerate(questions)
            ]
            return [
                result
                for result in results
                if result[1] != [(f"This is the whole answer to question {result[0]}.", True)]
            ]

        with suppress(TimeoutError):
            await slack.until(lambda: not wrong(), REST_SECONDS)
        assert wrong() == []
        assert killed


async def kill_workers(workers: list[Process], start: Callable[[], Awaitable[Process]], killed: list[Process]) -> None:
    """Kill a random worker every few seconds and start another in its place; the next is killed once that is ready.

    On a busy machine workers would otherwise be killed before they take their first message.
    """
    chance = random.Random(2026)  # noqa: S311  # the same faults in each run
    while True:
        await asyncio.sleep(KILL_SECONDS)
        victim = workers.pop(chance.randrange(len(workers)))
        victim.kill()
        await victim.wait()
        killed.append(victim)
        workers.append(await start())


async def ask(scene: Scene) -> list[tuple[Json, Json]]:
    """Mention the app in new threads, one after another."""
    channels = [scene.slack.world.add_channel(f"channel-{number}") for number in range(CHANNELS)]
    questions = []
    for number in range(QUESTIONS):
        channel = channels[number % CHANNELS]
        questions.append((await scene.ann.mentions(channel, f"question {number}"), channel))
        await asyncio.sleep(ASK_SECONDS)
    return questions
