"""What the system tells of processes: whether they run, and which ones a process has started; kills a Postgres."""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # the package has no types


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended may wait for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pids: Sequence[int]) -> None:
    """Wait until none of these processes runs."""
    while any(map(is_alive, pids)):
        time.sleep(0.01)


def list_children(pid: int) -> list[int]:
    """Return the processes that a process has started and that run; of one without threads the oldest first."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [child for file in files for child in map(int, file.read_text().split()) if is_alive(child)]


def kill_server(folder: Path) -> None:
    """Kill the Postgres in a data folder with all its processes, as a machine that is lost."""
    postmaster = psutil.Process(int((folder / "postmaster.pid").read_text().split()[0]))
    # Frozen first, so that it neither starts new processes nor stops the others in an orderly way.
    postmaster.suspend()
    processes = [postmaster, *postmaster.children(recursive=True)]
    for process in processes:
        # One that served a client may have ended by itself since.
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=20)
