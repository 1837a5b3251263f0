"""What is run confined, and what it may use; written into its folder by one process and read there by the other."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MEGABYTE = 1024 * 1024
# A job's folder holds the person's files, and beside them what the program reads and leaves.
FILES, JOB, CODE, STATE, REPORT, OUTPUT = "files", "job.json", "code", "state", "report.json", "output"
SETTINGS_FOLDER = "matplotlib"
# The status of a process that could not give up its rights; nothing ran.
NO_CONFINEMENT = 199
PROGRAM_FOLDER = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Limits:
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


@dataclass(frozen=True, slots=True)
class Job:
    """What is run: Python code, or with `command` a program of the system that gets the code as last argument."""

    folder: Path
    limits: Limits
    command: tuple[str, ...] | None = None
    keeps_state: bool = False
    program_folder: str = str(PROGRAM_FOLDER)
    parent: int = field(default_factory=os.getpid)

    @property
    def changeable(self) -> tuple[Path, ...]:
        """Return the folders in which the code may change something; it can't rename them, nor anything beside them."""
        return self.folder / FILES, self.folder / SETTINGS_FOLDER

    def write(self, code: str) -> None:
        """Make the folder ready; raises `OSError`."""
        (self.folder / FILES).mkdir(exist_ok=True)
        (self.folder / SETTINGS_FOLDER).mkdir(exist_ok=True)
        plain = asdict(self) | {"folder": str(self.folder)}
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
