"""Runs commands of the shell for pages, each in a process of its own: their libraries would stay in this one."""

import asyncio
import sys
from asyncio.subprocess import PIPE

from shared.processes.ending import kill
from shared.settings import Settings, list_variables

# Keys, models and platforms are asked over the network, and a silent one takes its time.
SECONDS = 90.0


async def run_command(settings: Settings, *words: str, content: bytes = b"", errors: int) -> tuple[int, bytes]:
    """Return the exit code of `parley WORDS`, which reads `content`, and its output; raises `TimeoutError`.

    It has this database and folder, all else as the environment says; `errors` is where its standard error goes.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters.cli", *words),
        env=list_variables(settings),
        stdin=PIPE,
        stdout=PIPE,
        stderr=errors,
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate(content)
    finally:
        await kill(process)
    return process.returncode or 0, output
