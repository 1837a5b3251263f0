"""The settings of the module."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class AnalystSettings:
    """Bounds of a query, read from `DATA_ANALYST_…`."""

    timeout_seconds: Annotated[float, Field(ge=1, le=300)] = 30
    row_limit: Annotated[int, Field(ge=1, le=5000)] = 200
    memory_mb: Annotated[int, Field(ge=64, le=65536)] = 192
    compare_row_limit: Annotated[int, Field(ge=1)] = 2_000_000
