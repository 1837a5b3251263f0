"""Functions for admins: permissions with an end, pauses, erasure, merging; views that can be changed."""

from pathlib import Path

from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

ADMIN = Path(__file__).resolve().parents[1] / "sql" / "admin"
RIGHTS = """
-- They act with the rights of their owner.
REVOKE EXECUTE ON FUNCTION admin.erase_user, admin.merge_users FROM PUBLIC;
GRANT EXECUTE ON FUNCTION admin.erase_user, admin.merge_users TO parley_admin;
GRANT UPDATE ON admin.users, admin.personas TO parley_admin;
"""
# Views are made anew, because a column can't be taken from them.
BEFORE = """
DROP SCHEMA admin CASCADE;
CREATE SCHEMA admin;
COMMENT ON SCHEMA admin IS 'Views and functions for admins: \\dv admin.* and \\df admin.* list them.';
"""
RIGHTS_BEFORE = """
GRANT USAGE ON SCHEMA admin TO parley_app, parley_admin, parley_readonly;
GRANT SELECT ON ALL TABLES IN SCHEMA admin TO parley_app, parley_admin, parley_readonly;
REVOKE SELECT ON admin.memories_by_user FROM parley_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA admin GRANT SELECT ON TABLES TO parley_admin, parley_readonly;
DO $$
DECLARE
    v_view regclass;
BEGIN
    FOR v_view IN SELECT oid FROM pg_class WHERE relnamespace = 'admin'::regnamespace AND relkind = 'v' LOOP
        EXECUTE format('ALTER VIEW %s RESET (security_invoker)', v_view);
    END LOOP;
END
$$;
"""


def upgrade() -> None:
    """Make the functions and change the views."""
    for name in ("views_v2", "people_v1"):
        _run((ADMIN / f"{name}.sql").read_text("utf-8"))
    _run(RIGHTS)


def downgrade() -> None:
    """Make the schema as it was."""
    _run(BEFORE)
    for name in ("views_v1", "functions_v1", "undo_v1"):
        _run((ADMIN / f"{name}.sql").read_text("utf-8"))
    _run(RIGHTS_BEFORE)


def _run(statements: str) -> None:
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
