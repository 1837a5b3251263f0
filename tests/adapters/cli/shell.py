"""A shell in a folder of its own, where somebody types `parley …`."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from tests.support.forks import Request, get_command, get_forks, run_loaded
from tests.support.processes import list_children
from tests.support.source_tree import list_measuring_variables

PARLEY = str(Path(sys.executable).with_name("parley"))


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass(frozen=True)
class Shell:
    """Runs commands with these settings and no others."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    has_landlock: bool = True
    # Whether what runs until it is stopped is a fork of a process that has imported the program.
    is_warm: bool = True
    # Whether what runs to its end needs litellm.
    is_loaded: bool = False
    # The file for stderr of what runs until it is stopped.
    errors: int = subprocess.PIPE

    @property
    def home(self) -> Path:
        """Return the folder of the embedded data."""
        return self.folder / "home"

    def environment(self, **settings: str) -> dict[str, str]:
        """Return what a command finds in its environment."""
        basics = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PARLEY_HOME": str(self.home), "TERM": "xterm"}
        return basics | list_measuring_variables() | dict(self.settings) | settings

    def run(self, *arguments: str, stdin: str = "", **settings: str) -> Finished:
        """Run a command to its end."""
        request = Request("adapters.cli", arguments, self.environment(**settings), str(self.folder), self.has_landlock)
        with ExitStack() as closing:
            streams = [closing.enter_context(TemporaryFile("w+", encoding="utf-8")) for _ in range(3)]
            streams[0].write(stdin)
            streams[0].seek(0)
            run = run_loaded if self.is_loaded else get_forks().run
            code = run(request, [stream.fileno() for stream in streams])
            for stream in streams:
                stream.seek(0)
            return Finished(code, streams[1].read(), streams[2].read())

    def says(self, *arguments: str, **settings: str) -> str:
        """Run a command that succeeds and return what it says."""
        result = self.run(*arguments, **settings)
        assert result.code == 0, result.err
        return result.out

    def start(self, *arguments: str, **settings: str) -> "subprocess.Popen[str]":
        """Start a command that runs until it is stopped."""
        return subprocess.Popen(  # our own program
            [*(get_command() if self.is_warm else (PARLEY,)), *arguments],
            cwd=self.folder,
            env=self.environment(**settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            encoding="utf-8",
        )

    def list_forks(self) -> set[int]:
        """Return the process ids of what runs here until it is stopped: warm programs, not what stands for them."""
        forks = set()
        for pid in list_children(get_forks().pid):
            # Those of other tests end at any time.
            with suppress(OSError):
                forks |= {pid} if Path(f"/proc/{pid}/cwd").resolve() == self.folder else set()
        return forks


def cell(shell: Shell, query: str, *options: str) -> str:
    """Return the one value that a query in psql prints."""
    return shell.says("psql", *options, "-At", "-c", query).strip()
