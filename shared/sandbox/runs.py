"""Runs a job in a confined process, and watches it from outside: time, files, and its end in any case."""

import asyncio
import os
import signal
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path

from msgspec import Struct

from shared.sandbox.job import FILES, MEGABYTE, OUTPUT, REPORT, SETTINGS_FOLDER, STATE, Job, Rights
from shared.sandbox.tree import MAX_DEPTH, TooDeep, walk

POLL_SECONDS = 0.05
START = "import sys; sys.path.insert(0, {!r}); from shared.sandbox.program import main; main()"


class Ended(Struct, frozen=True):
    """How a job ended: its exit status, below 0 the signal, and why it was stopped from outside, if it was.

    `has_entered` tells whether the sandbox was entered; without it the code has not begun.
    """

    status: int
    stopped: str | None = None
    has_entered: bool = True


async def run_confined(job: Job, code: str, python: Path) -> Ended:
    """Run the code with this interpreter and return when its process is gone; cancelled, it ends the process first.

    The output is left in the file `OUTPUT` of the job's folder.
    """
    await asyncio.to_thread(job.write, code)
    with ExitStack() as descriptors:
        output = descriptors.enter_context((job.folder / OUTPUT).open("wb"))
        # What the program leaves is written to descriptors: it may change nothing in the job's folder by name.
        report = descriptors.enter_context((job.folder / REPORT).open("r+b"))
        state = descriptors.enter_context((job.folder / STATE).open("r+b"))
        entered, entering = os.pipe()
        descriptors.callback(os.close, entered)
        with os.fdopen(entering, "wb"):
            inherited = (report.fileno(), state.fileno(), entering)
            process = await asyncio.create_subprocess_exec(
                python,
                "-I",
                "-c",
                START.format(job.program_folder),
                str(job.folder),
                *map(str, inherited),
                env=to_environment(job.folder / FILES, job.folder / SETTINGS_FOLDER),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=inherited,
            )
        try:
            paths = [job.folder / name for name in (OUTPUT, REPORT, STATE)]
            stopped = await _watch_the_clock(process, job.rights, paths)
        finally:
            await _end(process, has_children=job.command is not None)
        return Ended(process.returncode or 0, stopped, has_byte(entered))


def has_byte(pipe: int) -> bool:
    """Tell whether something was written to a pipe, without waiting for it."""
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        return os.read(pipe, 1) != b""
    return False


async def _end(process: asyncio.subprocess.Process, *, has_children: bool) -> None:
    # Commands may have left processes in the group, which nothing can leave. Otherwise its number is free.
    if process.returncode is None or has_children:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _watch_the_clock(process: asyncio.subprocess.Process, rights: Rights, paths: Sequence[Path]) -> str | None:
    try:
        async with asyncio.timeout(rights.limits.seconds):
            if excess := await watch(process, rights, paths):
                return excess
    except TimeoutError:
        return f"it took longer than {rights.limits.seconds:g} s"
    if process.returncode == -signal.SIGXCPU:
        return f"it used more than {rights.limits.cpu_seconds} s of processor time"
    return None


async def watch(process: asyncio.subprocess.Process, rights: Rights, paths: Sequence[Path] = ()) -> str | None:
    """Wait for the end of a process; return early, with the reason, when its files become too many or too large.

    `written` are files that count, too: it has them open, and may not change them by name.
    """
    ending = asyncio.ensure_future(process.wait())
    try:
        while not (await asyncio.wait({ending}, timeout=POLL_SECONDS))[0]:
            if excess := await asyncio.to_thread(_find_excess, rights, paths, process.pid):
                return excess
    finally:
        ending.cancel()
    return None


def _find_excess(rights: Rights, paths: Sequence[Path], process_id: int) -> str | None:
    """Return what there is too much of: deleted files that are open still take room, and so do many names of one."""
    limits = rights.limits
    sizes = dict(map(_measure, _list_held((*rights.changeable, *paths), process_id, rights)))
    try:
        for number, entry in enumerate(chain.from_iterable(map(walk, rights.changeable)), 1):
            if number > limits.folder_files:
                return f"it made more than {limits.folder_files:,} files"
            file, size = _measure(entry.stat)
            sizes[file] = size
    except TooDeep:
        return f"it nested more than {MAX_DEPTH} folders"
    if sum(sizes.values()) > limits.folder_bytes:
        return f"its files took more than {limits.folder_bytes // MEGABYTE:,} MB"
    return None


def _measure(status: os.stat_result) -> tuple[tuple[int, int], int]:
    return (status.st_dev, status.st_ino), status.st_blocks * 512


def _list_held(paths: Iterable[Path], process_id: int, rights: Rights) -> Iterator[os.stat_result]:
    """Yield what stands at these paths, and the deleted files that the process, and what it has started, have open."""
    for path in paths:
        with suppress(OSError):
            yield path.lstat()
    processes = _list_group(process_id) if rights.starts_commands else [process_id]
    # Not every system lets us look there; then the limits of open files and of a file's size bound what is deleted.
    tasks = (f"/proc/{process}/task" for process in processes)
    folders = (f"{task}/{thread}/fd" for task in tasks for thread in _list_names(task))
    for descriptor in (f"{folder}/{name}" for folder in folders for name in _list_names(folder)):
        # Each path for itself: what ends while we look must not hide the rest.
        with suppress(OSError):
            status = os.stat(descriptor)  # noqa: PTH116  # of thousands, as names
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                yield status


def _list_names(folder: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208  # of thousands, as names
    return []


def _list_group(leader: int) -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208  # of hundreds, as names
        with suppress(OSError, ValueError):
            if os.getpgid(int(name)) == leader:
                yield int(name)


def to_environment(folder: Path, settings_folder: Path) -> dict[str, str]:
    """Return all that a process finds in its environment: nothing of ours."""
    return {
        "HOME": str(folder),
        # One thread's allocations would reserve 128 MB of address space.
        "MALLOC_ARENA_MAX": "2",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": str(settings_folder),
        # Each thread would take address space, and a machine's cores are the others', too.
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "/usr/bin:/bin",
        "TMPDIR": str(folder),
    }
