"""How many cores this process may use: those that the system gives it, bounded by the quota of its control group."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def count_cores(groups: Path = GROUPS, own_groups: Path = OWN_GROUPS) -> int:
    """Return the number of whole cores, at least one; the files are those of control groups, version 1 or 2."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    quotas = [quota for folder in _list_folders(groups, own_groups) if (quota := _read_quota(folder)) is not None]
    return max(1, min([cores, *map(int, quotas)]))


def _list_folders(groups: Path, own_groups: Path) -> Iterator[Path]:
    # A group has no more than those above it; in a container the groups above its own are not to be seen.
    lines = own_groups.read_text().splitlines() if own_groups.is_file() else []
    for _, controllers, name in (line.split(":", 2) for line in lines):
        if not controllers or "cpu" in controllers.split(","):
            group = Path(name.lstrip("/"))
            yield from ((groups / "cpu" if controllers else groups) / path for path in (group, *group.parents))


def _read_quota(folder: Path) -> float | None:
    # Microseconds of processor time in each period; the files say `max` or -1 where there is no quota.
    with suppress(OSError, ValueError):
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{part}_us").read_text() for part in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else None
    return None
