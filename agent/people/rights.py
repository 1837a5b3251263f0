"""The rights of a turn's user at this moment, read by the statement that records the calls that may run next."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from shared.messages import Permission


@dataclass(frozen=True, slots=True)
class Rights:
    """A user's permission and the modules that the persona allows; `has_persona` is False for the built-in one."""

    permission: Permission
    has_persona: bool
    allowed_modules: Collection[str] | None


def to_rights(row: Any) -> Rights:
    """Return the rights from a row of `parley_rights`."""
    # The user may have been deleted while the turn runs.
    labels = [row.permission_level or Permission.GUEST.label, *(row.granted or ())]
    return Rights(max(map(Permission.from_label, labels)), bool(row.has_persona), row.allowed_modules)
