"""How many cores a process may use, with the files of control groups as the system writes them."""

import os
from pathlib import Path

import pytest

from shared.processes.cores import count_cores

ALL = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("own", "files", "cores"),
    [
        ("0::/\n", {}, ALL),
        ("0::/\n", {"cpu.max": "max 100000\n"}, ALL),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "99900000 100000\n"}, ALL),
        ("0::/pod/box\n", {"pod/cpu.max": "100000 100000\n", "pod/box/cpu.max": "max 100000\n"}, 1),
        ("3:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ("3:cpu,cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, ALL),
        ("5:memory:/\n", {"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, ALL),
        # In a container the host's name of the group is no folder.
        ("0::/docker/0123\n", {"cpu.max": "100000 100000\n"}, 1),
    ],
)
def test_the_quota_of_the_control_group_bounds_the_cores(
    tmp_path: Path, own: str, files: dict[str, str], cores: int
) -> None:
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(content)

    assert count_cores(tmp_path / "groups", tmp_path / "own") == cores


def test_the_cores_that_the_system_gives_are_counted() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert count_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
