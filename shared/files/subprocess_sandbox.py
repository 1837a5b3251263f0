"""Runs a parser in a process of its own: an exploit finds no secrets in its environment, and it can be killed."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Finished(NamedTuple):
    """The exit status, standard output and standard error of a process that has ended."""

    status: int
    output: bytes
    reason: str


async def run_isolated(program: Path, *arguments: str, content: bytes, seconds: float) -> Finished:
    """Run a Python program with `content` as standard input and an empty environment; raises `TimeoutError`."""
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
