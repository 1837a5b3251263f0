"""A process is ended whatever it has written, and whoever holds its pipes."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE

from shared.processes.ending import kill


async def test_a_process_whose_pipe_is_full_is_killed_and_its_end_noticed() -> None:
    endless = "import os\nwhile True: os.write(1, b'x' * 9000)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", endless, stdout=PIPE, stderr=PIPE, limit=1)
    assert process.stdout is not None
    # More has come than the limit: nothing is read from the pipe until somebody asks for it.
    await process.stdout.read(1)

    async with asyncio.timeout(30):
        await kill(process)

    assert process.returncode == -9


async def test_a_process_whose_child_holds_its_pipe_open_is_killed_and_its_end_noticed() -> None:
    parent = "import subprocess, time\nprint(subprocess.Popen(['sleep', '30']).pid, flush=True)\ntime.sleep(30)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", parent, stdout=PIPE)
    assert process.stdout is not None
    child = int(await process.stdout.readline())
    try:
        await kill(process, held_seconds=0.1)

        assert process.returncode == -9
    finally:
        os.kill(child, signal.SIGKILL)
