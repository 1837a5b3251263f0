"""The rights of a turn's user at this moment, read by the statement that records the calls that may run next."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Text, func

from shared.models import User
from shared.permissions import Permission

# A permission that was granted until a date ends with it.
PERMISSION: ColumnElement[str] = func.parley_permission(
    User.permission_level, User.permission_until, User.permission_after, type_=Text
)

# Joined to a statement about the turn `:turn_id`. Roles count where the message was written, as when the turn began.
RIGHTS = """
SELECT parley_permission(users.permission_level, users.permission_until, users.permission_after) AS permission_level,
    personas.allowed_modules, personas.id IS NOT NULL AS has_persona, (
    SELECT array_agg(role_grants.permission_level) FROM member_roles JOIN role_grants USING (platform, server)
    WHERE member_roles.user_id = users.id AND member_roles.platform = conversations.platform
      AND member_roles.server = conversations.platform_server_id
      AND jsonb_exists(member_roles.roles, role_grants.role) AND role_grants.permission_level IS NOT NULL
) AS granted
FROM turns JOIN conversations ON conversations.id = turns.conversation_id
LEFT JOIN users ON users.id = turns.user_id LEFT JOIN personas ON personas.id = turns.persona_id
WHERE turns.id = :turn_id
"""


@dataclass(frozen=True, slots=True)
class Rights:
    """A user's permission and the modules that the persona allows; `has_persona` is False for the built-in one."""

    permission: Permission
    has_persona: bool
    allowed_modules: Collection[str] | None


def to_rights(row: Any) -> Rights:
    """Return the rights from a row with the columns of `RIGHTS`."""
    # The user may have been deleted while the turn runs.
    labels = [row.permission_level or Permission.GUEST.label, *(row.granted or ())]
    return Rights(max(map(Permission.from_label, labels)), bool(row.has_persona), row.allowed_modules)
