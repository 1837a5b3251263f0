"""Runs Parley's own programs that open what strangers have made: confined, with an end, and a bound on their output."""

import asyncio
import os
import shlex
import signal
import sys
import tempfile
from asyncio import StreamReader
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from shared.errors import ToolError
from shared.log import get_logger
from shared.processes.ending import kill, write_to
from shared.sandbox.job import MEGABYTE, NO_CONFINEMENT, PROGRAM_FOLDER, Limits, Rights
from shared.sandbox.runs import has_byte, to_environment, watch
from shared.sandbox.tree import make_folder, remove

START = "import sys; sys.path.insert(0, {!r}); from shared.sandbox.confinement import run_program; run_program()"
START_BINARY = (
    "import sys; sys.path.insert(0, {!r}); from shared.sandbox.confinement import become_binary; become_binary()"
)
# What a program without a folder writes, it writes to its output.
PARSING = Limits(memory_bytes=1024 * MEGABYTE, cpu_seconds=15, file_bytes=0)
# A text of a million letters, or an image. What is read as JSON takes many times as much memory.
OUTPUT_BYTES, MAX_REASON_BYTES = 8 * MEGABYTE, 64 * 1024
CHUNK_BYTES = 256 * 1024
PREFIX = "parley-program-"
REMEDY = (
    "Parley needs Linux 5.13 or newer with Landlock switched on; elsewhere, start it with `docker compose up`, and in a"
    " container permit Landlock's calls, as Docker's own profile does"
)

log = get_logger()


class SandboxMissing(ToolError):
    """Nothing from outside can be opened here: {fault}. The operator has to act: {remedy}."""

    code = "sandbox_missing"

    def __init__(self, fault: str) -> None:
        super().__init__(fault=fault, remedy=REMEDY)


class Program(Struct, frozen=True):
    """A Python file, what it is told, and what it may use; `readable` is all that it reads of this machine.

    With `has_folder` it starts in an empty folder, where it may write. One that writes more output is ended.
    """

    path: Path
    arguments: tuple[str, ...] = ()
    limits: Limits = PARSING
    readable: tuple[Path, ...] = ()
    has_folder: bool = False
    output_bytes: int = OUTPUT_BYTES
    python: Path = Path(sys.executable)

    def within(self, seconds: float) -> "Program":
        """Return the program with so much time on the clock."""
        return replace(self, limits=self.limits._replace(seconds=seconds))


class Finished(NamedTuple):
    """The exit status, below 0 the signal, standard output and standard error of a process that has ended."""

    status: int
    output: bytes
    reason: str


async def run_program(program: Program, content: bytes) -> Finished:
    """Run a program with `content` as standard input; its process is gone afterwards.

    Raises `TimeoutError`, and `SandboxMissing` when it could not give up its rights: then nothing was opened.
    """
    async with _make_folder(program) as folder:
        changeable = () if folder is None else (folder,)
        rights = Rights(program.limits, os.getpid(), readable=program.readable, changeable=changeable)
        entered, entering = os.pipe()
        with os.fdopen(entered, "rb"), os.fdopen(entering, "wb"):
            process = await asyncio.create_subprocess_exec(
                *(program.python, "-I", "-c", START.format(str(PROGRAM_FOLDER))),
                *(rights.to_json(), str(entering), str(program.path), *program.arguments),
                env=to_environment(folder or Path("/"), folder or Path("/")),
                cwd=folder or "/",
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
                pass_fds=(entering,),
            )
            outcome = await _exchange(process, content, program, rights=rights)
            has_entered = has_byte(entered)
    if outcome.status == NO_CONFINEMENT and not has_entered:
        log.error("sandbox_not_entered", program=program.path.name, reason=outcome.reason)
        raise SandboxMissing(outcome.reason)
    return outcome


@contextmanager
def confine_binary(binary: Path, limits: Limits) -> Iterator[Path]:
    """Yield a command that gives up its rights and becomes this binary, for a library that starts it by its path alone.

    It has to be this process that starts it.
    """
    rights = Rights(limits, os.getpid(), becomes=binary)
    words = (sys.executable, "-I", "-S", "-c", START_BINARY.format(str(PROGRAM_FOLDER)), rights.to_json())
    with tempfile.TemporaryDirectory(prefix="parley-command-") as folder:
        command = Path(folder) / binary.name
        command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
        command.chmod(0o700)
        yield command


@asynccontextmanager
async def _make_folder(program: Program) -> AsyncIterator[Path | None]:
    if not program.has_folder:
        yield None
        return
    folder = await asyncio.to_thread(make_folder, PREFIX)
    try:
        yield folder
    finally:
        if not await asyncio.to_thread(remove, folder):
            log.warning("run_folder_left", folder=folder.name)


async def _exchange(process: Process, content: bytes, program: Program, *, rights: Rights) -> Finished:
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018  # they are pipes
    reading = [
        asyncio.ensure_future(_read_pipe(process.stdout, program.output_bytes, process)),
        asyncio.ensure_future(_read_pipe(process.stderr, MAX_REASON_BYTES, process)),
        asyncio.ensure_future(_write_all(process, content)),
    ]
    try:
        async with asyncio.timeout(rights.limits.seconds):
            excess = await watch(process, rights) if rights.changeable else None
            if excess is not None:
                return Finished(-signal.SIGKILL, b"", excess)
            output, reason, _ = await asyncio.gather(*reading)
            await process.wait()
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        await kill(process)
    return Finished(process.returncode or 0, output or b"", (reason or b"").decode("utf-8", "replace").strip())


async def _read_pipe(pipe: StreamReader, most_bytes: int, process: Process) -> bytes | None:
    """Return what is written to a pipe, None of a process that writes more, which is ended."""
    chunks = bytearray()
    while chunk := await pipe.read(CHUNK_BYTES):
        chunks += chunk
        if len(chunks) > most_bytes:
            # Once: a second one would take the exit status of a process that has ended from who waits for it.
            with suppress(ProcessLookupError):
                process.kill()
            while await pipe.read(CHUNK_BYTES):
                # As `kill` does.
                pass
            return None
    return bytes(chunks)


async def _write_all(process: Process, content: bytes) -> None:
    # A program that has read enough closes its end.
    await write_to(process, content)
    assert process.stdin is not None  # noqa: S101  # it was started with pipes
    process.stdin.close()
