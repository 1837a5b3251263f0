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
    """Return the processes that a process without threads has started and that run, the oldest first."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for child in map(int, children) if is_alive(child)]
