"""A shell in a folder of its own, where somebody types `parley …`."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.adapters.cli.forks import STREAMS, Request, get_forks
from tests.support.folders import temporary_folder
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
        with temporary_folder("streams") as streams:
            for name in STREAMS:
                (streams / name).write_text(stdin if name == "stdin" else "", "utf-8")
            request = Request(
                arguments, self.environment(**settings), str(self.folder), str(streams), self.has_landlock
            )
            code = get_forks().run(request)
            return Finished(code, *((streams / name).read_text("utf-8") for name in STREAMS[1:]))

    def says(self, *arguments: str, **settings: str) -> str:
        """Run a command that succeeds and return what it says."""
        result = self.run(*arguments, **settings)
        assert result.code == 0, result.err
        return result.out

    def start(self, *arguments: str, **settings: str) -> "subprocess.Popen[str]":
        """Start a command that runs until it is stopped."""
        return subprocess.Popen(  # our own program
            [PARLEY, *arguments],
            cwd=self.folder,
            env=self.environment(**settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )


def cell(shell: Shell, query: str, *options: str) -> str:
    """Return the one value that a query in psql prints."""
    return shell.says("psql", *options, "-At", "-c", query).strip()
