"""Starts programs as forks of one process that has imported them, so that their imports cost nothing.

`python -m tests.support.forks NUMBER` takes a request per connection of the listening socket with that number, and so
does `python -m tests.support.workers NUMBER`.
"""

import atexit
import ctypes
import fcntl
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from sqlalchemy.orm import configure_mappers

from adapters.cli.platforms import read_all_settings
from adapters.cli.registry import COMMANDS, GROUPS
from adapters.folders import list_folders
from agent.commands import list_commands
from agent.prompts import prompts
from agent.tools.modules import find_modules
from shared.settings import Settings
from shared.settings.module_folders import list_entry_points
from tests.support import fork
from tests.support.landlock import remove_landlock

ROOT = Path(__file__).parents[2]
# The variable of the environment that names the socket of the process that test processes are forks of.
LOADED = "TEST_LOADED_FORKS"
# As an argument: its programs import what they need themselves.
UNPREPARED = "unprepared"
# What `madvise` is told; Linux has it since 6.1.
LARGE_PAGE, COLLAPSE = 2**21, 25
# What programs import when they run. None of these starts a thread, which would not survive a fork.
IMPORTED = (
    "adapters.cells.moves",
    "adapters.cli",
    "adapters.cli.archiving",
    "adapters.cli.compose",
    "adapters.cli.owner",
    "adapters.cli.serving",
    "adapters.cli.talk.local_worker",
    "adapters.cli.worker",
    "adapters.kubernetes.operator",
    "adapters.slack.setup",
    "adapters.terminal.chat",
    "adapters.terminal.live",
    "adapters.web",
    "agent.personal_data.export",
    "agent.llm.offline",
    "agent.tools.mcp.remote_tools",
    "alembic.command",
    "cryptography.fernet",
    "filetype",
    "httpx",
    "requests",
    "rich.console",
    "rich.markdown",
    "rich.table",
    "rich.text",
    "shared.db.pooling.watch",
    "shared.log",
    "shared.models",
    "shared.tracing.otlp",
    "sqlalchemy.ext.asyncio",
    "structlog",
    "tests.crash.worker",
    "tests.standins.mcp_server",
    "typer._adapters",
)


@dataclass(frozen=True, slots=True)
class Request:
    """A module with a function `main`, and what it finds when it is run as a program."""

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    has_landlock: bool = True


class Forks:
    """The process that programs are forked from: a module that serves, with its arguments."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._creator = os.getpid()
        # Not one that is removed by itself at the end of a fork, too.
        self._folder = tempfile.mkdtemp(prefix="parley-forks-")
        self.path = str(Path(self._folder) / "socket")
        # It takes connections from now on, also while the process still imports.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.path)
            listener.listen()
            number = listener.fileno()
            command = [sys.executable, "-m", module, str(number), *arguments]
            self._server = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[number]
            )

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._server.pid

    def start(self, request: Request, streams: Sequence[int]) -> AbstractContextManager[tuple[int, socket.socket]]:
        """Run a program for the block; return its process id, and who tells its end."""
        return fork.start_fork(self.path, asdict(request), streams)

    def run(self, request: Request, streams: Sequence[int]) -> int:
        """Run a program to its end and return its exit code."""
        return fork.run_fork(self.path, asdict(request), streams)

    def close(self) -> None:
        """End the process, unless this one is itself a fork of its creator."""
        if os.getpid() != self._creator:
            return
        self._server.communicate()
        shutil.rmtree(self._folder)


@cache
def get_forks() -> Forks:
    """Return the one process that these tests fork the program from; it ends with them."""
    forks = Forks(__spec__.name)
    atexit.register(forks.close)
    return forks


def run_loaded(request: Request, streams: Sequence[int]) -> int:
    """Run a program that needs litellm to its end, and return its exit code.

    It is a fork of the process that has imported litellm for the test processes, where there is one: the import takes
    two seconds of the processor.
    """
    path = os.environ.get(LOADED)
    return fork.run_fork(path, asdict(request), streams) if path else get_forks().run(request, streams)


def get_command(module: str = "adapters.cli", forks: Forks | None = None) -> tuple[str, ...]:
    """Return the command that runs a module in a fork.

    Its own process passes signals on and ends with the fork; to freeze the program takes the fork's own id.
    """
    return (sys.executable, "-IS", fork.__file__, (forks or get_forks()).path, module)


def prepare() -> None:
    """Import the program."""
    for name in IMPORTED:
        import_module(name)
    for file, _ in (*COMMANDS.values(), *GROUPS.values()):
        import_module(f"adapters.cli.{file}")
    for platform in list_folders():
        import_module(f"adapters.{platform}.platform")
    list_commands("web")
    configure_mappers()
    find_modules(None, Settings())
    read_all_settings(Settings())
    prompts()


def serve(listener: socket.socket) -> None:
    """Fork a process for each connection until stdin ends."""
    gc.collect()
    gc.freeze()
    use_large_pages()
    # An interrupt from the terminal ends the tests, whose last programs are still to be started.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nobody waits for the forks here: each tells its exit code itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            become(connection)
        connection.close()


def use_large_pages() -> None:
    """Have the kernel move this process's memory into pages of 2 MB: a fork of it takes half the time then."""
    madvise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
        addresses, rights, _, _, _, *name = line.split(maxsplit=5)
        start, end = (int(address, 16) // LARGE_PAGE for address in addresses.split("-"))
        if rights == "rw-p" and name in ([], ["[heap]"]) and start + 1 < end:
            first, size = (start + 1) * LARGE_PAGE, (end - start - 1) * LARGE_PAGE
            # A kernel that can't refuses, which changes nothing.
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), COLLAPSE)


def become(connection: socket.socket) -> None:
    """Turn this fork into the program."""
    message, (*streams, life), *_ = socket.recv_fds(connection, 1 << 20, 4)
    request = Request(**json.loads(message))
    connection.send(str(os.getpid()).encode())
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    end_with(life)
    os.chdir(request.folder)
    if not request.has_landlock:
        remove_landlock()
    os.environ.clear()
    os.environ.update(request.environment)
    paths = request.environment.get("PYTHONPATH", "").split(os.pathsep)
    if folders := [folder for folder in paths if folder not in {"", str(ROOT)}]:
        sys.path[:0] = folders
        # They may bring packages; to look through all that are installed takes a fifth of a command.
        list_entry_points.cache_clear()
    sys.argv = ["parley", *request.arguments]
    # A program reads its time zone when it starts.
    time.tzset()
    code = 1
    try:
        code = run_main(request.module)
    finally:
        if not isinstance(failure := sys.exc_info()[1], SystemExit | None):
            traceback.print_exception(failure)
        # What a program does at its end, but not the taking apart of all that was imported, which takes half a second.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        connection.send(str(code).encode())
        os._exit(code)


def run_main(module: str) -> int:
    """Run the program and return its exit code, which Python makes of what it exits with."""
    try:
        import_module(module).main()
    except SystemExit as ending:
        if isinstance(ending.code, int | None):
            return ending.code or 0
        print(ending.code, file=sys.stderr)  # noqa: T201  # as Python does
        return 1
    return 0


def end_with(life: int) -> None:
    """Have the kernel kill this process when the other end of the pipe is gone."""
    os.set_inheritable(life, False)
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC)
    if select.select([life], [], [], 0)[0]:
        os._exit(1)


if __name__ == "__main__":
    if sys.argv[2:] != [UNPREPARED]:
        prepare()
    serve(socket.socket(fileno=int(sys.argv[1])))
