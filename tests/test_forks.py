"""The process that programs are forked from in tests: a fork is as good as a start, and nothing is left over."""

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fork import run_fork
from tests.support.forks import UNPREPARED, Forks, Request

PROGRAM = """
import os, sys, time

def main():
    print(os.getpid(), *time.tzname, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    """One of its own, which a test may treat badly."""
    forks = Forks("tests.support.forks", UNPREPARED)
    yield forks
    forks.close()


@pytest.fixture
def request_of_program(tmp_path: Path) -> Request:
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    environment = {"PYTHONPATH": str(tmp_path), "TZ": "Asia/Tokyo", "PATH": os.environ["PATH"]}
    return Request("program", (), environment, str(tmp_path))


def ask(forks: Forks, request: Request, tmp_path: Path) -> str:
    """Run the program with an empty stdin, and return what it writes."""
    output = tmp_path / "output"
    with Path(os.devnull).open("rb") as empty, output.open("wb") as file:
        code = forks.run(request, [empty.fileno(), file.fileno(), file.fileno()])
    assert code == 0, output.read_text("utf-8")
    return output.read_text("utf-8")


def test_a_program_is_killed_when_its_caller_gives_up(forks: Forks, request_of_program: Request) -> None:
    reader, writer = os.pipe()
    processes: list[int] = []

    def give_up(pid: int) -> None:
        processes.append(os.pidfd_open(pid))
        raise TimeoutError

    request = {name: getattr(request_of_program, name) for name in Request.__dataclass_fields__}
    with Path(os.devnull).open("wb") as output, pytest.raises(TimeoutError):
        run_fork(forks.path, request, [reader, output.fileno(), output.fileno()], give_up)

    # A handle of a process becomes readable when it has ended.
    assert select.select(processes, [], [], 60)[0] == processes
    for number in (*processes, reader, writer):
        os.close(number)


def test_a_program_has_the_time_zone_of_its_environment(
    forks: Forks, request_of_program: Request, tmp_path: Path
) -> None:
    assert ask(forks, request_of_program, tmp_path).split()[1:] == ["JST", "JST"]


def test_an_interrupt_from_the_terminal_leaves_the_programs_that_clean_up_after_it(
    forks: Forks, request_of_program: Request, tmp_path: Path
) -> None:
    assert ask(forks, request_of_program, tmp_path)

    os.kill(forks.pid, signal.SIGINT)

    assert ask(forks, request_of_program, tmp_path)


def test_an_interrupt_ends_a_program(forks: Forks, request_of_program: Request) -> None:
    reader, writer = os.pipe()
    request = {name: getattr(request_of_program, name) for name in Request.__dataclass_fields__}
    with Path(os.devnull).open("wb") as output:
        streams = [reader, output.fileno(), output.fileno()]
        assert run_fork(forks.path, request, streams, lambda pid: os.kill(pid, signal.SIGINT)) != 0
    os.close(reader)
    os.close(writer)


def test_nothing_is_left_when_the_tests_end_before_a_program(request_of_program: Request, tmp_path: Path) -> None:
    forks = Forks("tests.support.forks", UNPREPARED)
    assert ask(forks, request_of_program, tmp_path)
    server = os.pidfd_open(forks.pid)
    forks.close()

    assert select.select([server], [], [], 60)[0] == [server]
    os.close(server)
    with pytest.raises(OSError, match=r".+"):
        forks.run(request_of_program, [0, 1, 2])
    assert subprocess.run(["ls", forks.path], check=False, capture_output=True).returncode != 0
