"""The database's roles: the program's own, and those of people who work by SQL."""

from collections.abc import Sequence

import asyncpg

from shared.errors import ConfigurationError

APP_ROLE = "parley_app"
# Reads and changes what admins may; only looks, and not at what people have written.
ADMIN_ROLE, READONLY_ROLE = "parley_admin", "parley_readonly"
ROLES = (APP_ROLE, ADMIN_ROLE, READONLY_ROLE)

PRESENT = "SELECT array_agg(CAST(rolname AS text)) FROM pg_roles WHERE rolname = ANY($1)"
# From 16 on, a member of a role may be without the right to act as it.
MAY_NOT_ACT_AS = """
SELECT role FROM unnest(CAST($1 AS text[])) AS role
WHERE NOT pg_has_role(
    session_user, role,
    CASE WHEN CAST(current_setting('server_version_num') AS int) < 160000 THEN 'MEMBER' ELSE 'SET' END
)
"""
MAY_TOO_MUCH = "SELECT rolname FROM pg_roles WHERE rolname = ANY($1) AND (rolsuper OR rolbypassrls) ORDER BY rolname"


async def find_missing_roles(connection: asyncpg.Connection) -> list[str]:
    """Return those of `ROLES` that the server does not have."""
    present = await connection.fetchval(PRESENT, list(ROLES)) or ()
    return [role for role in ROLES if role not in present]


async def write_remedy(connection: asyncpg.Connection, user: str) -> str:
    """Return what a superuser must run so that this user may act as all of the roles."""
    statements = "".join(f"CREATE ROLE {role} LOGIN; " for role in await find_missing_roles(connection))
    return f"{statements}GRANT {', '.join(ROLES)} TO {user};"


async def check_roles(connection: asyncpg.Connection, roles: Sequence[str] = ROLES) -> None:
    """Raise `ConfigurationError` with the remedy unless the login may act as these roles, and they hide rows."""
    if missing_roles := [role for role in await find_missing_roles(connection) if role in roles]:
        raise ConfigurationError(
            f"The database has no role {' and no role '.join(missing_roles)}; run: parley migrate."
        )
    user = await connection.fetchval("SELECT quote_ident(session_user)")
    if forbidden_roles := [row["role"] for row in await connection.fetch(MAY_NOT_ACT_AS, list(roles))]:
        which = ", ".join(forbidden_roles)
        raise ConfigurationError(f"{user} may not act as {which}; let a superuser run: GRANT {which} TO {user};")
    if too_much := await connection.fetch(MAY_TOO_MUCH, list(roles)):
        remedy = " ".join(f"ALTER ROLE {row['rolname']} NOSUPERUSER NOBYPASSRLS;" for row in too_much)
        raise ConfigurationError(f"A role sees what it must not see; let a superuser run: {remedy}")
