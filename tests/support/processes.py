"""What the system tells of processes: whether they run, and which ones a process has started."""

import time
from collections.abc import Sequence
from pathlib import Path


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
