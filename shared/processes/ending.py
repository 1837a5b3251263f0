"""Ends a process whose output somebody reads through pipes."""

from asyncio.subprocess import Process
from contextlib import suppress

CHUNK_BYTES = 1 << 16


async def kill(process: Process) -> None:
    """Kill a process, and wait for its end; nobody else reads its pipes any more.

    What is left in them is read, because asyncio notices an end only after that of the pipes, and reads none on that is
    full: who waited for the end of a killed program that had written much waited for ever.
    """
    with suppress(ProcessLookupError):
        process.kill()
    for pipe in (process.stdout, process.stderr):
        while pipe is not None and await pipe.read(CHUNK_BYTES):
            pass
    await process.wait()
