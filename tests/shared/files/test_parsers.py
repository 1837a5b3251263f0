"""Parsers of untrusted files: few at once in a worker, and no more than half of them for one person."""

import asyncio
from itertools import accumulate
from pathlib import Path

from shared.db.database import Database
from shared.files.storage import FilesOfUser, Storage
from shared.sandbox.programs import Program
from tests.support.filing import add_user

# Holds the file `waiting` open until there is a file `go`; prints when it began and when it ended.
PROGRAM = """
import os, sys, time
begun = time.monotonic()
held = open(os.path.join(sys.argv[1], "waiting"))
while not os.path.exists(os.path.join(sys.argv[1], "go")):
    time.sleep(0.01)
print(begun, time.monotonic())
"""


async def test_four_parsers_run_at_once_and_two_for_each_person(
    storage: Storage, database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    files = [storage.of_user(database, await add_user(database), None) for _ in range(3)]

    assert await _most_at_once(path, tmp_path / "one", files[:1] * 5, count=2) == 2
    assert await _most_at_once(path, tmp_path / "all", files * 3, count=4) == 4


async def test_a_persons_many_parsers_do_not_keep_another_waiting(
    storage: Storage, database: Database, tmp_path: Path
) -> None:
    waits, at_once = tmp_path / "waits.py", tmp_path / "at_once.py"
    waits.write_text(PROGRAM)
    at_once.write_text("print('read')")
    ann, bob = [storage.of_user(database, await add_user(database), None) for _ in range(2)]
    (tmp_path / "waiting").touch()
    program = Program(waits, (str(tmp_path),), readable=(tmp_path,)).within(60)
    running = [asyncio.create_task(ann.run_program(program, b"")) for _ in range(8)]
    await _until_running(tmp_path, 2)

    result = await bob.run_program(Program(at_once), b"")

    assert result.output == b"read\n"
    assert not any(task.done() for task in running)
    (tmp_path / "go").touch()
    await asyncio.gather(*running)


async def _most_at_once(path: Path, folder: Path, files: list[FilesOfUser], *, count: int) -> int:
    await asyncio.to_thread(folder.mkdir)
    await asyncio.to_thread((folder / "waiting").touch)
    program = Program(path, (str(folder),), readable=(folder,)).within(60)
    running = [asyncio.create_task(file.run_program(program, b"")) for file in files]
    await _until_running(folder, count)
    (folder / "go").touch()
    times = [map(float, result.output.split()) for result in await asyncio.gather(*running)]
    changes = [change for start, ended in times for change in ((start, 1), (ended, -1))]
    return max(accumulate(step for _, step in sorted(changes)))


async def _until_running(folder: Path, count: int) -> None:
    async with asyncio.timeout(60):
        while await asyncio.to_thread(_count_running, folder) < count:  # noqa: ASYNC110  # other processes begin by themselves
            await asyncio.sleep(0.01)


def _count_running(folder: Path) -> int:
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            count += any(path.samefile(folder / "waiting") for path in (process / "fd").iterdir())
        except OSError:
            continue
    return count
