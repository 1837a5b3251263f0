"""Permissions with an end, pauses of people and servers, and names of people from their accounts.

The release before reads `permission_level` alone: it obeys a permission that has ended until a worker of this release
writes it back, within a minute.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTIONS = ("parley_permission_v1", "parley_end_grants_v1", "parley_name_person_v1")
LEVELS = "permission_after IN ('guest', 'user', 'admin', 'owner')"

CHECK_USER = """
CREATE OR REPLACE FUNCTION parley_check_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {first}IF {is_new} AND NEW.permission_level IN ('admin', 'owner') AND OLD.permission_level NOT IN ('admin', 'owner')
       AND NEW.token_budget_monthly IS NOT DISTINCT FROM OLD.token_budget_monthly THEN
        NEW.token_budget_monthly := NULL;
    END IF;
    IF NEW.time_zone <> 'UTC' AND NOT EXISTS (SELECT FROM pg_timezone_names WHERE name = NEW.time_zone) THEN
        RAISE EXCEPTION 'users_time_zone_is_known: there is no time zone "%"', NEW.time_zone
        USING ERRCODE = 'check_violation', CONSTRAINT = 'users_time_zone_is_known', TABLE = 'users',
              HINT = 'Write it as Europe/Berlin; SELECT name FROM pg_timezone_names lists them all.';
    END IF;
    RETURN NEW;
END
$$;
"""
# What is granted for a time leaves the budget as it is, and admin.undo brings the old budget back itself.
IS_NEW = "NEW.permission_until IS NULL AND coalesce(current_setting('parley.undoes', true), '') = ''"
ENDED = """IF TG_OP = 'UPDATE' AND NEW.permission_level <> OLD.permission_level
       AND NEW.permission_until IS NOT DISTINCT FROM OLD.permission_until THEN
        -- Whoever sets a permission without an end means it so.
        NEW.permission_until := NULL;
        NEW.permission_after := NULL;
    END IF;
    """
USERS_NOW = ("permission_level", "token_budget_monthly", "permission_until", "permission_after", "paused_at")
USERS_BEFORE = USERS_NOW[:2]
SERVERS_NOW = ("token_budget_monthly", "files_kept_days", "paused_at")
SERVERS_BEFORE = SERVERS_NOW[:2]


def upgrade() -> None:
    """Add the columns, the functions and the triggers."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    columns = (
        ("permission_until", sa.DateTime(timezone=True), "End of permission_level, then permission_after; NULL: none."),
        ("permission_after", sa.Text(), "The permission after permission_until: guest, user, admin or owner."),
        ("paused_at", sa.DateTime(timezone=True), "Since when this person is not answered; NULL: they are."),
    )
    for name, kind, comment in columns:
        op.add_column("users", sa.Column(name, kind, nullable=True, comment=comment))
    op.add_column(
        "servers",
        sa.Column(
            "paused_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Since when nobody is answered there; NULL: they are.",
        ),
    )
    op.create_check_constraint(op.f("users_permission_after_is_guest_user_admin_or_owner"), "users", LEVELS)
    op.create_check_constraint(
        op.f("users_a_permission_with_an_end_has_one_after_it"),
        "users",
        "(permission_until IS NULL) = (permission_after IS NULL)",
    )
    op.create_index(
        "ix_users_permission_until",
        "users",
        ["permission_until"],
        postgresql_where=sa.text("permission_until IS NOT NULL"),
    )
    for name in FUNCTIONS:
        _run((SQL / f"{name}.sql").read_text("utf-8"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")
    # The views of admin call it.
    op.execute("GRANT EXECUTE ON FUNCTION parley_permission_v1 TO parley_readonly")
    _run(CHECK_USER.format(is_new=IS_NEW, first=ENDED))
    _log("users", USERS_NOW)
    _log("servers", SERVERS_NOW)
    op.execute(
        "CREATE TRIGGER parley_audit_links AFTER UPDATE OF user_id ON user_platform_links FOR EACH ROW"
        " EXECUTE FUNCTION parley_audit_v1('of', 'user_id')"
    )
    op.execute(
        "CREATE TRIGGER parley_name_person AFTER INSERT OR UPDATE OF platform_username, user_id ON user_platform_links"
        " FOR EACH ROW WHEN (NEW.platform_username IS NOT NULL) EXECUTE FUNCTION parley_name_person_v1()"
    )
    op.execute("""
UPDATE users SET display_name = account.name FROM (
    SELECT user_id, (array_agg(platform_username ORDER BY id))[1] AS name FROM user_platform_links
    WHERE platform_username IS NOT NULL GROUP BY user_id
) AS account
WHERE account.user_id = users.id AND users.display_name IS NULL
""")


def downgrade() -> None:
    """Take them away; names stay."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute("DROP TRIGGER parley_name_person ON user_platform_links")
    op.execute("DROP TRIGGER parley_audit_links ON user_platform_links")
    _log("users", USERS_BEFORE)
    _log("servers", SERVERS_BEFORE)
    _run(CHECK_USER.format(is_new="true", first=""))
    for name in FUNCTIONS:
        op.execute(f"DROP FUNCTION {name}")
    op.drop_column("servers", "paused_at")
    for name in ("paused_at", "permission_after", "permission_until"):
        op.drop_column("users", name)


def _log(table: str, columns: tuple[str, ...]) -> None:
    given = ", ".join(f"'{each}'" for each in columns)
    op.execute(f"DROP TRIGGER parley_audit_update ON {table}")
    op.execute(
        f"CREATE TRIGGER parley_audit_update AFTER UPDATE OF {', '.join(columns)} ON {table} FOR EACH ROW"
        f" EXECUTE FUNCTION parley_audit_v1('of', {given})"
    )


def _run(statements: str) -> None:
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
