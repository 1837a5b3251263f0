"""Starts commands as forks of one process that has imported the program, so that their imports cost nothing.

`python -m tests.adapters.cli.forks` reads one request per line of stdin and writes one exit code per line to stdout.
"""

import atexit
import gc
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from sqlalchemy.orm import configure_mappers

from agent.tools.modules import find_modules, list_entry_points
from shared.settings import Settings
from tests.support.landlock import remove_landlock

ROOT = Path(__file__).parents[3]
STREAMS = ("stdin", "stdout", "stderr")
# What commands import when they run. None of these starts a thread, which would not survive a fork.
IMPORTED = (
    "adapters.cli",
    "adapters.cli.compose",
    "adapters.cli.owner",
    "adapters.cli.platforms",
    "adapters.cli.worker",
    "adapters.terminal",
    "agent.llm.offline",
    "agent.commands.personal_data.export",
    "alembic.command",
    "rich.console",
    "rich.table",
    "rich.text",
    "shared.log",
    "shared.models",
    "sqlalchemy.ext.asyncio",
    "typer._adapters",
)


@dataclass(frozen=True, slots=True)
class Request:
    """A command, and the folder with the files that are its streams."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    streams: str
    has_landlock: bool = True


class Forks:
    """The process that commands are forked from."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.adapters.cli.forks"]
        self._server = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )

    def run(self, request: Request) -> int:
        """Run a command to its end and return its exit code."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asdict(request)) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._server.communicate()


@cache
def get_forks() -> Forks:
    """Return the one such process of these tests, which ends with them."""
    forks = Forks()
    atexit.register(forks.close)
    return forks


def serve() -> None:
    """Fork a process for each request until stdin ends."""
    for name in IMPORTED:
        import_module(name)
    configure_mappers()
    find_modules(None, Settings())
    # A command may have packages of its own.
    list_entry_points.cache_clear()
    gc.freeze()
    for line in sys.stdin:
        request = Request(**json.loads(line))
        child = os.fork()
        if not child:
            become(request)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201  # the answer to the parent


def become(request: Request) -> None:
    """Turn this fork into the command."""
    for number, name in enumerate(STREAMS):
        file = os.open(Path(request.streams) / name, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request.folder)
    if not request.has_landlock:
        remove_landlock()
    os.environ.clear()
    os.environ.update(request.environment)
    sys.path[:0] = [folder for folder in request.environment.get("PYTHONPATH", "").split(os.pathsep) if folder]
    sys.argv = ["parley", *request.arguments]
    code: object = 1
    try:
        import_module("adapters.cli").main()
    except SystemExit as ending:
        code = ending.code
    finally:
        if not isinstance(failure := sys.exc_info()[1], SystemExit | None):
            traceback.print_exception(failure)
        # What a command does at its end, but not the taking apart of all that was imported, which takes half a second.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    serve()
