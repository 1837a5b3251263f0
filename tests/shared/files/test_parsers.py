"""Parsers of untrusted files: few at once in a process, and one for each person."""

import asyncio
from pathlib import Path

from shared.db.database import Database
from shared.files.storage import Storage
from tests.support.filing import add_user

# Prints how many of its kind run, then waits for the file `go`.
PROGRAM = """
import os, sys, time
folder = sys.argv[1]
own = os.path.join(folder, f"running-{os.getpid()}")
open(own, "w").close()
print(sum(name.startswith("running") for name in os.listdir(folder)))
while not os.path.exists(os.path.join(folder, "go")):
    time.sleep(0.01)
os.remove(own)
"""


async def test_two_parsers_run_at_once_and_one_for_each_person(
    storage: Storage, database: Database, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    users = [await add_user(database) for _ in range(3)]
    one, all_of_them = tmp_path / "one", tmp_path / "all"
    one.mkdir()
    all_of_them.mkdir()

    async def parse(user: int, folder: Path) -> int:
        files = storage.of_user(database, user, None)
        finished = await files.run_parser(program, str(folder), content=b"", seconds=60)
        return int(finished.output)

    alone = [asyncio.create_task(parse(users[0], one)) for _ in range(3)]
    await _until_running(one, 1)
    (one / "go").touch()
    assert await asyncio.gather(*alone) == [1, 1, 1]

    together = [asyncio.create_task(parse(user, all_of_them)) for user in users * 2]
    await _until_running(all_of_them, 2)
    (all_of_them / "go").touch()
    assert max(await asyncio.gather(*together)) == 2


async def _until_running(folder: Path, count: int) -> None:
    async with asyncio.timeout(60):
        while await asyncio.to_thread(_count_running, folder) < count:  # noqa: ASYNC110  # another process makes them
            await asyncio.sleep(0.01)


def _count_running(folder: Path) -> int:
    return len(list(folder.glob("running-*")))
