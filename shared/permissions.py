"""What a user may do, in four levels."""

from enum import IntEnum


class Permission(IntEnum):
    """The four levels, ordered: a higher one may do all that a lower one may."""

    GUEST = 0
    USER = 1
    ADMIN = 2
    OWNER = 3

    @property
    def label(self) -> str:
        """Return the level as it stands in `users.permission_level`."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> "Permission":
        """Return the level with this label; raises `KeyError` for any other text."""
        return cls[label.upper()]
