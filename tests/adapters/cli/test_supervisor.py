"""The process that starts workers and starts them again: with programs that end as workers may end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.processes import is_alive, wait_until_gone
from tests.support.source_tree import ROOT

PROGRAM = """
import os, signal, sys, time
from adapters.cli.supervisor import Supervisor
from shared.errors import ConfigurationError
from shared.log import configure_logging

def serve(child):
    print(os.getpid(), flush=True)
    child.announce_ready()
    signal.pause()

def wait(child):
    print(os.getpid(), flush=True)
    signal.pause()

def end(child):
    raise ConfigurationError("NO is wrong.")

def die(child):
    os.kill(os.getpid(), signal.SIGKILL)

def ignore(child):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(child)

configure_logging("INFO", "json")
"""


@contextmanager
def supervised(arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """Run a supervisor with these arguments in a process of its own."""
    running = subprocess.Popen(
        [sys.executable, "-c", f"{PROGRAM}\nsys.exit(Supervisor({arguments}).run())"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def read_lines(running: "subprocess.Popen[str]", count: int) -> list[dict[str, object]]:
    """Return the next lines of the log."""
    assert running.stderr is not None
    return [json.loads(running.stderr.readline()) for _ in range(count)]


def read_pid(running: "subprocess.Popen[str]") -> int:
    """Return the process id that a program has printed."""
    assert running.stdout is not None
    return int(running.stdout.readline())


def test_what_ends_at_once_is_started_again_with_growing_pauses_and_its_cause_is_told() -> None:
    with supervised("[serve, die], on_ready=lambda: None") as running:
        lines = read_lines(running, 3)

    assert [line["restart_seconds"] for line in lines] == [1.0, 2.0, 4.0]
    assert {(line["event"], line["worker"], line["cause"]) for line in lines} == {("worker_ended", 2, "SIGKILL")}


def test_what_has_run_for_long_is_started_again_after_a_second() -> None:
    with supervised("[serve, end], on_ready=lambda: None, steady_seconds=0") as running:
        assert running.stderr is not None
        texts = [running.stderr.readline() for _ in range(4)]

    assert texts[::2] == ["parley: NO is wrong.\n"] * 2
    lines = [json.loads(text) for text in texts[1::2]]
    assert [(line["restart_seconds"], line["cause"]) for line in lines] == [(1.0, "exit code 2")] * 2


def test_the_others_wait_for_the_first_and_what_ends_it_before_it_was_ready_ends_all() -> None:
    with supervised("[end, serve], on_ready=lambda: None") as running:
        out, err = running.communicate()

    assert (running.returncode, out, err) == (2, "", "parley: NO is wrong.\n")


def test_a_process_with_threads_is_not_forked() -> None:
    thread = "__import__('threading').Thread(target=time.sleep, args=(60,), daemon=True).start()"
    with supervised(f"[serve, serve], on_ready=lambda: {thread}") as running:
        read_pid(running)
        _, err = running.communicate()

    assert "a process with threads is no process to fork" in err
    assert running.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_ends_all(number: signal.Signals) -> None:
    with supervised("[serve, wait], on_ready=lambda: None") as running:
        pids = [read_pid(running), read_pid(running)]
        running.send_signal(number)
        _, err = running.communicate()

    assert running.returncode == 0
    assert err == "parley: stopping; running answers have 20 s\n"
    assert not any(is_alive(pid) for pid in pids)


def test_a_second_signal_ends_at_once_what_does_not_listen() -> None:
    with supervised("[ignore, ignore], on_ready=lambda: None") as running:
        pids = [read_pid(running), read_pid(running)]
        running.send_signal(signal.SIGTERM)
        assert running.stderr is not None
        running.stderr.readline()
        running.send_signal(signal.SIGINT)
        running.communicate()

    assert running.returncode == 128 + signal.SIGINT
    assert not any(is_alive(pid) for pid in pids)


def test_the_programs_end_with_the_supervisor() -> None:
    with supervised("[ignore, ignore], on_ready=lambda: None") as running:
        pids = [read_pid(running), read_pid(running)]
        assert all(is_alive(pid) for pid in pids)
        os.kill(running.pid, signal.SIGKILL)
        wait_until_gone(pids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_log_that_nobody_reads_any_more_ends_nobody(number: signal.Signals) -> None:
    """As in `parley run 2>&1 | tee log`, where Ctrl+C ends `tee` too."""
    with supervised("[serve, serve], on_ready=lambda: None") as running:
        first, second = read_pid(running), read_pid(running)
        assert running.stderr is not None
        running.stderr.close()
        running.stderr = None
        os.kill(second, signal.SIGKILL)
        assert is_alive(read_pid(running))
        assert is_alive(first)
        running.send_signal(number)
        running.wait()

    assert running.returncode == 0


def test_an_end_by_a_signal_without_a_name_is_told() -> None:
    program = "lambda child: os.kill(os.getpid(), signal.SIGRTMIN + 1)"
    with supervised(f"[serve, {program}], on_ready=lambda: None") as running:
        (line,) = read_lines(running, 1)

    assert line["cause"] == f"signal {signal.SIGRTMIN + 1}"


def test_a_process_that_can_not_be_started_is_tried_again_while_the_others_run() -> None:
    limit = "__import__('resource').setrlimit(__import__('resource').RLIMIT_NOFILE, (3, 4096))"
    with supervised(f"[serve, serve], on_ready=lambda: {limit}") as running:
        pid = read_pid(running)
        lines = read_lines(running, 2)
        assert is_alive(pid)

    assert [(line["event"], line["worker"], line["restart_seconds"]) for line in lines] == [
        ("worker_not_started", 2, 1.0),
        ("worker_not_started", 2, 2.0),
    ]
