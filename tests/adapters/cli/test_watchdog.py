"""A process whose event loop is blocked says what blocks it, and ends so that others take over."""

import asyncio
import signal
import sys

import pytest

from adapters.cli.watchdog import EXIT_STATUS

START = """
import asyncio, re, sys, time
from adapters.cli.watchdog import watched
from shared.log import configure_logging

def endless_loop():
    while True:
        pass

def endless_wait():
    time.sleep(600)

def endless_expression():
    re.match(r"(a*)*b", "a" * 60)

def nothing():
    print("it goes on", flush=True)

async def main(block):
    with watched(log_after=0.2, end_after=0.6):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        block()
        await asyncio.to_thread(sys.stdin.readline)

configure_logging("INFO", "console")
asyncio.run(main(globals()[sys.argv[1]]))
"""


async def start(block: str) -> asyncio.subprocess.Process:
    """Start a process that will call this function in its event loop when it gets a line."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START, block, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("block", ["endless_loop", "endless_wait"])
async def test_a_blocked_process_logs_the_stack_and_ends(block: str) -> None:
    process = await start(block)

    log, _ = await process.communicate(b"\n")

    assert process.returncode == EXIT_STATUS
    assert b"event_loop_blocked" in log
    assert b"blocked_process_ended" in log
    assert f"in {block}".encode() in log


async def test_a_process_in_which_nothing_else_can_run_logs_the_stack_and_ends_too() -> None:
    process = await start("endless_expression")

    log, _ = await process.communicate(b"\n")

    assert process.returncode == -signal.SIGVTALRM
    assert b"in endless_expression" in log


async def test_a_process_that_was_stopped_and_continued_goes_on() -> None:
    process = await start("nothing")
    process.send_signal(signal.SIGSTOP)
    # Longer than the time after which a blocked process is ended.
    await asyncio.sleep(1)
    process.send_signal(signal.SIGCONT)

    output, _ = await process.communicate(b"\n\n")

    assert process.returncode == 0
    assert output == b"it goes on\n"
