"""The interface of a chat platform's settings; imported by every command, and therefore light."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class PlatformSettings:
    """The settings of a platform: each field is read from the variable `<PLATFORM>_<FIELD>`."""

    # Whether everybody who reads a channel there reads its threads: then what is said in a thread is the channel's.
    has_open_threads: ClassVar[bool] = False
    # Whether the listener hands each event to the cell in which its server lives.
    has_cells: ClassVar[bool] = False
    # The fields that have to be set before the platform can be used.
    needed_fields: ClassVar[tuple[str, ...]] = ()
    # Those with the platform's addresses: files may be fetched from there, even from private networks.
    origin_fields: ClassVar[tuple[str, ...]] = ()

    @property
    def missing(self) -> str | None:
        """Return the variables that have to be set before the platform can be used; None if it is configured."""
        variables = [to_variable(self._name, field) for field in self.needed_fields if getattr(self, field) is None]
        return f"{' and '.join(variables)}, see docs/{self._name}.md" if variables else None

    @property
    def adapters(self) -> Sequence[str]:
        """Return the adapters of the agent's accounts there, by which messages come and replies go."""
        return (self._name,)

    @property
    def serves_http(self) -> bool:
        """Return whether the platform has `routes`: then the process with the web adapter opens it, too."""
        return False

    @property
    def origins(self) -> Mapping[str, str]:
        """Return the platform's addresses that are set, by variable."""
        values = {to_variable(self._name, field): getattr(self, field) for field in self.origin_fields}
        return {variable: value for variable, value in values.items() if value}

    @property
    def _name(self) -> str:
        # The folder is the platform.
        return type(self).__module__.split(".")[-2]


def to_variable(platform: str, field: str) -> str:
    """Return the variable that sets a field of a platform's settings."""
    return f"{platform}_{field}".upper()
