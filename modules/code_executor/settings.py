"""The settings of the module."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from shared.sandbox.job import MEGABYTE, Limits


@dataclass(frozen=True, slots=True)
class CodeExecutorSettings:
    """Bounds of a run, read from `CODE_EXECUTOR_…`; `environment` is a virtual environment with the libraries."""

    environment: Path = Path(sys.prefix) / "code"
    shell: bool = False
    memory_mb: Annotated[int, Field(ge=64, le=65536)] = 512
    cpu_seconds: Annotated[int, Field(ge=1, le=90)] = 10
    seconds: Annotated[float, Field(ge=1, le=90)] = 20
    disk_mb: Annotated[int, Field(ge=1, le=4096)] = 64
    state_mb: Annotated[int, Field(ge=1, le=16)] = 8
    runs: Annotated[int, Field(ge=1, le=64)] = 2

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
