"""A process is killed while a command asks a person, or does what the person has confirmed."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from shared.db.database import Address
from shared.db.hosts import URL
from tests.crash.promises import broken_at_each, list_deaths
from tests.crash.stage import Stage, open_copy, open_stage_on

# What tells that a confirmed command was done, or will be: an erasure that was begun is finished by a worker.
DONE = {
    "/memory forget all": "SELECT NOT EXISTS (SELECT FROM memories)",
    "/erase me": "SELECT EXISTS (SELECT FROM erasures)",
}
OPEN = "SELECT count(*) FROM confirmations WHERE status = 'pending'"

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(300)]


async def give(stage: Stage, line: str, name: str, at: str = "") -> Sequence[str]:
    """Let a process give a command, and kill it at a point; return the points and, at the end, the answer."""
    process = await stage.worker(name, command=line, at=at, action="kill")
    await process.until_gone()
    return process.points[1:]


async def ask(stage: Stage, line: str, name: str = "asker") -> str:
    """Give a command and return the line that confirms it."""
    *_, reply = await give(stage, line, name)
    number = re.search(r"/confirm (\d+)", reply)
    assert number is not None, reply
    return number[0]


async def prepare(stage: Stage) -> None:
    """Make a person of whom something is remembered."""
    await give(stage, "/me", "person")
    await stage.owner.execute(
        "INSERT INTO memories (user_id, scope, content) SELECT id, 'private', 'likes boats' FROM users"
    )


@pytest.mark.parametrize("line", DONE)
async def test_a_confirmed_command_is_done_once_wherever_its_process_is_killed(
    postgres: URL, new_address: Address, tmp_path: Path, line: str
) -> None:
    async with open_stage_on(new_address, tmp_path / str(new_address.url.database)) as stage:
        await prepare(stage)
        yes = await ask(stage, line)
    async with open_copy(postgres, tmp_path, new_address) as stage:
        *points, reply = await give(stage, yes, "first")
        assert await stage.value(DONE[line]), reply

    async def one(point: str) -> list[str]:
        async with open_copy(postgres, tmp_path, new_address) as stage:
            await give(stage, yes, "first", at=point)
            is_done, is_open = await stage.value(DONE[line]), await stage.value(OPEN) == 1
            *_, again = await give(stage, yes, "second")
            checks = {
                "the yes is lost, or counts twice": is_done != is_open,
                "not done": await stage.value(DONE[line]),
                "not told": ("nothing to confirm" in again) == is_done,
                "still open": await stage.value(OPEN) == 0,
                "begun twice": await stage.value("SELECT count(*) FROM erasures") <= 1,
            }
            return [f"{point}: {name} ({again})" for name, is_right in checks.items() if not is_right]

    assert await broken_at_each(list_deaths(points), one) == []


async def test_a_command_whose_process_is_killed_while_it_asks_does_nothing_and_asks_again(
    postgres: URL, new_address: Address, tmp_path: Path
) -> None:
    line = "/memory forget all"
    async with open_stage_on(new_address, tmp_path / str(new_address.url.database)) as stage:
        await prepare(stage)
    async with open_copy(postgres, tmp_path, new_address) as stage:
        *points, _ = await give(stage, line, "first")

    async def one(point: str) -> list[str]:
        async with open_copy(postgres, tmp_path, new_address) as stage:
            await give(stage, line, "first", at=point)
            is_untouched = not await stage.value(DONE[line])
            yes = await ask(stage, line, "second")
            checks = {
                "done without a yes": is_untouched,
                "one open question": await stage.value(OPEN) == 1,
                "not done": "I have forgotten" in (await give(stage, yes, "third"))[-1],
            }
            return [f"{point}: {name}" for name, is_right in checks.items() if not is_right]

    assert await broken_at_each(list_deaths(points), one) == []
