"""The settings of the module."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field


@dataclass(frozen=True, slots=True)
class PmsSettings:
    """Bounds of stays, read from `PMS_…`."""

    hold_minutes: Annotated[int, Field(ge=1, le=1440)] = 15
    """How long a hold lasts."""
    max_holds: Annotated[int, Field(ge=1, le=100)] = 3
    """Most holds of a person at a time."""
    max_nights: Annotated[int, Field(ge=1, le=365)] = 60
    """Longest stay."""
    days_ahead: Annotated[int, Field(ge=1, le=3650)] = 730
    """How far ahead a stay may begin."""
