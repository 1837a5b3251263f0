"""The settings of the module."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class AnalystSettings:
    """Bounds of a query, read from `DATA_ANALYST_…`."""

    timeout_seconds: Annotated[float, Field(ge=1, le=300)] = 30
    """How long one query, or the join of a comparison, may take."""
    row_limit: Annotated[int, Field(ge=1, le=5000)] = 200
    """Most rows that a query returns."""
    memory_mb: Annotated[int, Field(ge=64, le=65536)] = 192
    """DuckDB's memory; beyond it, it uses temporary files."""
    compare_row_limit: Annotated[int, Field(ge=1)] = 2_000_000
    """Most keys of a Postgres source in a comparison."""
