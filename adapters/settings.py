"""The interface of a chat platform's settings; imported by every command, and therefore light."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class PlatformSettings:
    """The settings of a platform: each field is read from the variable `<PLATFORM>_<FIELD>`."""

    # Whether everybody who reads a channel there reads its threads: then what is said in a thread is the channel's.
    has_open_threads: ClassVar[bool] = False

    @property
    def missing(self) -> str | None:
        """Return the variables that have to be set before the platform can be used; None if it is configured."""
        return None

    @property
    def serves_http(self) -> bool:
        """Return whether the platform has `routes`: then the process with the web adapter opens it, too."""
        return False

    @property
    def origins(self) -> Mapping[str, str]:
        """Return the platform's addresses by variable: files may be fetched from there, even from private networks."""
        return {}

    @property
    def has_cells(self) -> bool:
        """Return whether the listener hands each event to the cell in which its server lives."""
        return False
