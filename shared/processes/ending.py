"""Writes to a process, and ends one whose output somebody reads through pipes."""

import asyncio
from asyncio.subprocess import Process
from contextlib import suppress

CHUNK_BYTES = 1 << 16
HELD_SECONDS = 5.0


async def write_to(process: Process, content: bytes) -> bool:
    """Write to the standard input of a process; returns False if it has ended, or reads no more."""
    assert process.stdin is not None  # noqa: S101  # it was started with pipes
    try:
        process.stdin.write(content)
        await process.stdin.drain()
    # Where the end is known already, uvloop says so by a `RuntimeError`.
    except (OSError, RuntimeError):
        return False
    return True


async def kill(process: Process, *, held_seconds: float = HELD_SECONDS) -> None:
    """Kill a process, and wait for its end; nobody else reads its pipes any more.

    What is left in them is read, because asyncio notices an end only after that of the pipes, and reads none on that is
    full: who waited for the end of a killed program that had written much waited for ever. What the process has started
    may hold its pipes open as long as it likes: that is not waited for.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    with suppress(TimeoutError):
        await asyncio.wait_for(_read_to_end(process), held_seconds)


async def _read_to_end(process: Process) -> None:
    for pipe in (process.stdout, process.stderr):
        while pipe is not None and await pipe.read(CHUNK_BYTES):
            pass
    await process.wait()
