"""Several processes that listen for one bot: each message reaches one of them, whoever comes, goes or is killed."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # the package has no types
import pytest

from adapters.discord.platform import DiscordPlatform
from shared.db.database import Address
from tests.adapters.discord.conftest import BETWEEN_STARTS, Scene
from tests.bench.children import running_child
from tests.standins.discord import Json
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import child_environment, ended
from tests.support.eventually import PATIENCE
from tests.support.forks import get_command

pytestmark = pytest.mark.settings(default_guest_token_budget=1_000_000)
MARKS = "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL"
OF_OTHERS = "SELECT count(*) FROM shards WHERE split_part(holder, ':', 2) <> :pid"


@dataclass
class Servers:
    """A channel on each shard; of the first one, that of the scene."""

    channels: Sequence[Json]


def add_servers(scene: Scene, count: int) -> Servers:
    """Divide the scene into shards, with one server on each."""
    first = int(scene.guild["id"])
    channels = {(first >> 22) % count: scene.general}
    for number in range(1, count):
        # The next millisecond's id belongs to the next shard.
        guild = scene.discord.world.add_guild(f"Server {number}", scene.ann.user, str(first + (number << 22)))
        channels[((first >> 22) + number) % count] = scene.discord.world.add_channel(guild["id"], "general")
    scene.discord.shards = count
    return Servers([channels[number] for number in range(count)])


@asynccontextmanager
async def listening(scene: Scene, count: int = 1) -> AsyncIterator[list["asyncio.Task[None]"]]:
    """Let so many listen, each as a process of its own would."""
    tasks = [asyncio.create_task(DiscordPlatform(scene.own).listen(scene.parley.app)) for _ in range(count)]
    try:
        yield tasks
    finally:
        for task in tasks:
            await ended(task)


async def find_holder(scene: Scene) -> str:
    """Return the process id of who holds the shards: that of a fork, and not of the program that stands for it."""
    return str(await scene.value("SELECT split_part(max(holder), ':', 2) FROM shards"))


@contextmanager
def frozen(holder: str) -> Iterator[psutil.Process]:
    """Stop a process for the block, or until it is resumed in it."""
    process = psutil.Process(int(holder))
    process.suspend()
    try:
        yield process
    finally:
        process.resume()


async def until_logged(log: Path, text: str) -> None:
    """Return once the log of another process has this text."""
    async with asyncio.timeout(PATIENCE):
        while text not in log.read_text():  # noqa: ASYNC110, ASYNC240  # another process writes it
            await asyncio.sleep(0.05)


async def ask_everywhere(scene: Scene, servers: Servers, question: str, **fields: Any) -> None:
    for number, channel in enumerate(servers.channels):
        await scene.ann.asks(f"{question} {number}", channel, **fields)


async def hear_everywhere(scene: Scene, servers: Servers, count: int) -> None:
    """Wait for the answers; fails if one of them is there twice."""
    for channel in servers.channels:
        assert await scene.ann.hears(channel, count) == ["Here."] * count
    # Of a command only its arrival is stored.
    questions = "SELECT count(*) FROM inbox WHERE content <> ''"
    assert await scene.value(questions) == count * len(servers.channels)


@pytest.mark.parametrize("at_once", [1, 4])
async def test_processes_that_start_at_once_share_the_shards_and_start_no_session_too_soon(
    scene: Scene, address: Address, model: OpenAIStub, at_once: int
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    servers = add_servers(scene, 4)
    scene.discord.gateway.max_concurrency, scene.discord.gateway.identify_seconds = at_once, 0.3
    scene.own = replace(scene.own, session_seconds=0.6)
    async with scene.opened(address, model, listens=False), listening(scene, 2):
        await scene.discord.gateway.until(4)

        await ask_everywhere(scene, servers, "here?")
        await hear_everywhere(scene, servers, 1)
        assert await scene.sql("SELECT count(*) FROM shards GROUP BY holder") == [(2,), (2,)]
    assert scene.discord.gateway.refusals == 0
    assert len(scene.discord.gateway.identifies) == 4


async def test_a_process_that_comes_takes_its_share_and_gives_it_back_without_losing_a_message(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    servers = add_servers(scene, 4)
    scene.discord.gateway.max_concurrency = 4
    async with scene.opened(address, model, listens=False), listening(scene):
        await scene.discord.gateway.until(4)
        async with listening(scene):
            await scene.until_value(2, "SELECT min(count) FROM (SELECT count(*) FROM shards GROUP BY holder) AS each")
            await ask_everywhere(scene, servers, "while they move?")
            await hear_everywhere(scene, servers, 1)
        await ask_everywhere(scene, servers, "and after?")
        await hear_everywhere(scene, servers, 2)
    # Two shards moved there and back.
    assert len(scene.discord.gateway.identifies) == 8


@pytest.mark.timeout(300)
async def test_the_shards_of_a_killed_process_are_taken_over_with_all_that_was_missed(
    scene: Scene, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    servers = add_servers(scene, 4)
    scene.discord.gateway.max_concurrency = 4
    env = child_environment(scene.settings, address, tmp_path) | scene.discord.environment()
    async with scene.opened(address, model, listens=False), AsyncExitStack() as stack:
        command = (*get_command(), "adapter", "discord")
        adapter = await stack.enter_async_context(running_child(*command, env=env))
        await scene.discord.gateway.until(4)
        holder = await find_holder(scene)
        await stack.enter_async_context(running_child(*command, env=env))
        await scene.until_value(2, OF_OTHERS, pid=holder)
        await scene.discord.gateway.until(4)
        await ask_everywhere(scene, servers, "before?")
        await hear_everywhere(scene, servers, 1)
        await scene.until_value(4, MARKS)

        adapter.kill()
        await adapter.wait()
        await ask_everywhere(scene, servers, "meanwhile?")

        await scene.until_value(4, OF_OTHERS, pid=holder)
        await scene.discord.gateway.until(4)
        await hear_everywhere(scene, servers, 2)
        await ask_everywhere(scene, servers, "after?")
        await hear_everywhere(scene, servers, 3)


@pytest.mark.timeout(300)
async def test_a_typed_command_that_the_next_holder_reads_again_acts_once(
    scene: Scene, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    env = child_environment(scene.settings, address, tmp_path) | scene.discord.environment()
    async with scene.opened(address, model, listens=False):
        async with running_child(*get_command(), "adapter", "discord", env=env) as child:
            await scene.discord.gateway.until()
            await scene.until_value(1, MARKS)
            await scene.ann.says("hello", scene.ann.dm())
            await scene.ann.hears(scene.ann.dm())
            await scene.sql("UPDATE users SET permission_level = 'user'")
            await scene.ann.says("/schedule add every Monday at 10: stand-up", scene.ann.dm())
            assert (await scene.ann.hears(scene.ann.dm(), 2))[1].startswith("Scheduled")
            # Before it has stored how far it has come.
            child.kill()
        await scene.ann.says("still there?", scene.ann.dm(), is_heard=False)
        async with listening(scene):
            assert (await scene.ann.hears(scene.ann.dm(), 3))[2] == "Here."
    assert await scene.sql("SELECT content FROM scheduled_jobs") == [("stand-up",)]


@pytest.mark.timeout(300)
async def test_a_frozen_process_that_wakes_up_leaves_its_shards_to_their_new_holder(
    scene: Scene, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    servers = add_servers(scene, 2)
    log = tmp_path / "log"
    env = child_environment(scene.settings, address, tmp_path) | scene.discord.environment()
    async with (
        scene.opened(address, model, listens=False),
        running_child(*get_command(), "adapter", "discord", env=env, errors=log),
    ):
        await scene.discord.gateway.until(2)
        await scene.until_value(2, MARKS)
        with frozen(await find_holder(scene)) as process:
            await ask_everywhere(scene, servers, "while it is frozen?")
            async with listening(scene):
                await hear_everywhere(scene, servers, 1)
                command = await scene.ann.types("help", scene.general)
                await command.answered()
                process.resume()
                await until_logged(log, "discord_shards_left")
                await ask_everywhere(scene, servers, "and now?")
                await hear_everywhere(scene, servers, 2)
    # It had seen the command as well.
    assert len(scene.discord.sent("POST", f"/interactions/{command.payload['id']}/")) == 1


@pytest.mark.timeout(300)
async def test_a_command_acts_once_where_the_clock_of_the_database_lets_two_processes_hold_a_shard(
    scene: Scene, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    env = child_environment(scene.settings, address, tmp_path) | scene.discord.environment()
    async with (
        scene.opened(address, model, listens=False),
        running_child(*get_command(), "adapter", "discord", env=env, errors=log),
    ):
        await scene.discord.until(lambda: scene.discord.commands)
        await scene.until_value(1, MARKS)
        with frozen(await find_holder(scene)) as process:
            await scene.sql("UPDATE listeners SET alive_until = now() - interval '1 second'")
            async with listening(scene):
                await scene.discord.gateway.until(2)
                command = await scene.ann.types("help", scene.general)
                await command.answered()
                # Its own clock says that its lease goes on.
                process.resume()
                await until_logged(log, "discord_shards_left")
    assert len(scene.discord.sent("POST", f"/interactions/{command.payload['id']}/")) == 1


@pytest.mark.timeout(300)
async def test_a_process_whose_lease_ended_while_nobody_else_listened_goes_on_with_its_session(
    scene: Scene, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    servers = add_servers(scene, 2)
    env = child_environment(scene.settings, address, tmp_path) | scene.discord.environment()
    async with (
        scene.opened(address, model, listens=False),
        running_child(*get_command(), "adapter", "discord", env=env),
    ):
        await scene.discord.gateway.until(2)
        await scene.until_value(2, MARKS)
        with frozen(await find_holder(scene)):
            await ask_everywhere(scene, servers, "while it is frozen?")
            await scene.until_value(True, "SELECT alive_until < now() FROM listeners")
        await hear_everywhere(scene, servers, 1)
        await ask_everywhere(scene, servers, "and now?")
        await hear_everywhere(scene, servers, 2)
        assert len(scene.discord.gateway.identifies) == 2


async def test_more_shards_after_a_stop_lose_nothing(scene: Scene, address: Address, model: OpenAIStub) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    servers = add_servers(scene, 4)
    scene.discord.gateway.max_concurrency = 4
    scene.own = replace(scene.own, shard_count=1)
    async with scene.opened(address, model):
        await ask_everywhere(scene, servers, "in one")
        await hear_everywhere(scene, servers, 1)
    await scene.discord.gateway.until_gone()
    await ask_everywhere(scene, servers, "missed", is_heard=False)

    scene.own = replace(scene.own, shard_count=4)
    async with scene.opened(address, model):
        await hear_everywhere(scene, servers, 2)
        assert len(scene.discord.gateway.connected()) == 4


async def test_without_sessions_left_for_today_it_says_so_and_starts_none(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.discord.sessions_left = 0
    result = ""
    async with scene.opened(address, model, listens=False), listening(scene), asyncio.timeout(PATIENCE):
        while "platform_unreachable" not in result:
            await asyncio.sleep(BETWEEN_STARTS)
            result += capsys.readouterr().out
    assert "Discord starts no more sessions for this token today; it does again in 4.0 hours." in result
    assert scene.discord.gateway.identifies == []
