"""The settings of the module."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from shared.environments import CODE_ENVIRONMENT
from shared.sandbox.job import MEGABYTE, Limits


@dataclass(frozen=True, slots=True)
class CodeExecutorSettings:
    """Bounds of a run, read from `CODE_EXECUTOR_…`; `environment` is a virtual environment with the libraries."""

    environment: Path = CODE_ENVIRONMENT
    """The virtual environment that code runs in."""
    shell: bool = False
    """Switches `run_shell` on, for owners."""
    memory_mb: Annotated[int, Field(ge=64, le=65536)] = 512
    """Address space of a process."""
    cpu_seconds: Annotated[int, Field(ge=1, le=90)] = 10
    """Processor time of a process."""
    seconds: Annotated[float, Field(ge=1, le=90)] = 20
    """Time on the clock."""
    disk_mb: Annotated[int, Field(ge=1, le=4096)] = 64
    """What a run may write; a file may have 16 MB."""
    state_mb: Annotated[int, Field(ge=1, le=16)] = 8
    """The variables that are kept, pickled; at most 16."""
    runs: Annotated[int, Field(ge=1, le=64)] = 2
    """Runs at once in one worker, one for each person; they are among the `SANDBOX_PROCESSES`."""

    @property
    def python(self) -> Path:
        """Return the environment's interpreter."""
        return self.environment / "bin" / "python"

    @property
    def limits(self) -> Limits:
        """Return the limits of a run that begins with an empty folder."""
        return Limits(
            memory_bytes=self.memory_mb * MEGABYTE,
            cpu_seconds=self.cpu_seconds,
            seconds=self.seconds,
            folder_bytes=self.disk_mb * MEGABYTE,
        )
