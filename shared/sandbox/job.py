"""What is run confined, and what it may use; written by one process and read by the other.

Nothing here imports `dataclasses`, which would take each start of a confined process a quarter of its time.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple, Self

MEGABYTE = 1024 * 1024
# A job's folder holds the person's files, and beside them what the program reads and leaves.
FILES, JOB, CODE, STATE, REPORT, OUTPUT = "files", "job.json", "code", "state", "report.json", "output"
SETTINGS_FOLDER = "matplotlib"
# The status of a process that could not give up its rights; nothing ran.
NO_CONFINEMENT = 199
PROGRAM_FOLDER = Path(__file__).parents[2]


class Limits(NamedTuple):
    """What a job may use; `folder_bytes` and `folder_files` count what is in its folder from the beginning, too.

    `memory_bytes` is address space, for each process; `seconds` is time on the clock; `tasks` are processes and
    threads.
    """

    memory_bytes: int = 512 * MEGABYTE
    cpu_seconds: int = 10
    seconds: float = 20
    file_bytes: int = 16 * MEGABYTE
    folder_bytes: int = 64 * MEGABYTE
    folder_files: int = 1000
    open_files: int = 64
    tasks: int = 32


class Rights(NamedTuple):
    """What a process may use besides the interpreter and its libraries, which it may read; commands only if it says so.

    It may go through `folder` and read what is in it and beneath `readable`, and change what is in `changeable`.
    `becomes` is a binary that it may become, and no other. It ends with the process `parent`.
    """

    limits: Limits
    parent: int
    folder: Path | None = None
    readable: tuple[Path, ...] = ()
    changeable: tuple[Path, ...] = ()
    starts_commands: bool = False
    becomes: Path | None = None

    def to_json(self) -> str:
        """Return it as text, for the process that it is about."""
        return json.dumps(self._asdict() | {"limits": self.limits._asdict()}, default=str)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` has written."""
        plain: dict[str, Any] = json.loads(text)
        paths = {name: tuple(map(Path, plain[name])) for name in ("readable", "changeable")}
        path = {name: None if plain[name] is None else Path(plain[name]) for name in ("folder", "becomes")}
        return cls(**plain | paths | path | {"limits": Limits(**plain["limits"])})


class Job(NamedTuple):
    """What is run: Python code, or with `command` a program of the system that gets the code as last argument.

    It ends with the process `parent`.
    """

    folder: Path
    limits: Limits
    parent: int
    command: tuple[str, ...] | None = None
    keeps_state: bool = False
    program_folder: str = str(PROGRAM_FOLDER)

    @property
    def rights(self) -> Rights:
        """Return what the code may use. It can't rename the folders that it may change, nor anything beside them."""
        changeable = (self.folder / FILES, self.folder / SETTINGS_FOLDER)
        has_command = self.command is not None
        return Rights(self.limits, self.parent, self.folder, changeable=changeable, starts_commands=has_command)

    def write(self, code: str) -> None:
        """Make the folder ready; raises `OSError`."""
        (self.folder / FILES).mkdir(exist_ok=True)
        (self.folder / SETTINGS_FOLDER).mkdir(exist_ok=True)
        plain = self._asdict() | {"folder": str(self.folder), "limits": self.limits._asdict()}
        (self.folder / JOB).write_text(json.dumps(plain), "utf-8")
        (self.folder / CODE).write_text(code, "utf-8")
        (self.folder / REPORT).touch()
        (self.folder / STATE).touch()

    @classmethod
    def read(cls, folder: Path) -> "Job":
        """Read what `write` has written."""
        plain: dict[str, Any] = json.loads((folder / JOB).read_text("utf-8"))
        command = None if plain["command"] is None else tuple(plain["command"])
        return cls(**plain | {"folder": Path(plain["folder"]), "limits": Limits(**plain["limits"]), "command": command})
