"""The four permission levels of users."""

from enum import IntEnum


class Permission(IntEnum):
    """A permission level; each includes all lower ones."""

    GUEST = 0
    USER = 1
    ADMIN = 2
    OWNER = 3

    @property
    def label(self) -> str:
        """Return the level as it is stored in `users.permission_level`."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> "Permission":
        """Return the level with this label; raises `KeyError` for any other text."""
        return cls[label.upper()]
