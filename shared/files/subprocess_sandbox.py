"""Run a parser in a process of its own: what has tricked it finds no keys there, and it can be ended."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Finished(NamedTuple):
    """How the process ended, and what it wrote."""

    status: int
    output: bytes
    reason: str


async def run_isolated(program: Path, *arguments: str, content: bytes, seconds: float) -> Finished:
    """Run one of our programs on this content, with no environment; raises `TimeoutError` when it takes longer."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(program),
        *arguments,
        env={},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds):
            output, reason = await process.communicate(content)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return Finished(process.returncode or 0, output, reason.decode("utf-8", "replace").strip())
