"""A log of what admins change, and the schema `admin` with views and functions for people."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
LOG = ("parley_without_secrets_v1", "parley_audit_hash_v1", "parley_audit_v1", "parley_verify_audit_v1")
ADMIN = ("admin/views_v1", "admin/functions_v1", "admin/undo_v1")

# The program counts in users and servers with every turn: only what admins decide is logged.
TRIGGERS = """
CREATE TRIGGER parley_audit_insert AFTER INSERT ON users FOR EACH ROW WHEN (NEW.permission_level <> 'guest')
    EXECUTE FUNCTION parley_audit_v1('of', 'permission_level', 'token_budget_monthly');
CREATE TRIGGER parley_audit_update AFTER UPDATE OF permission_level, token_budget_monthly ON users FOR EACH ROW
    EXECUTE FUNCTION parley_audit_v1('of', 'permission_level', 'token_budget_monthly');
CREATE TRIGGER parley_audit_delete AFTER DELETE ON users FOR EACH ROW
    EXECUTE FUNCTION parley_audit_v1('of', 'permission_level', 'token_budget_monthly');
CREATE TRIGGER parley_audit_insert AFTER INSERT ON servers FOR EACH ROW
    WHEN (NEW.token_budget_monthly IS NOT NULL OR NEW.files_kept_days IS NOT NULL)
    EXECUTE FUNCTION parley_audit_v1('of', 'platform', 'platform_server_id', 'token_budget_monthly', 'files_kept_days');
CREATE TRIGGER parley_audit_update AFTER UPDATE OF token_budget_monthly, files_kept_days ON servers FOR EACH ROW
    EXECUTE FUNCTION parley_audit_v1('of', 'token_budget_monthly', 'files_kept_days');
CREATE TRIGGER parley_audit_delete AFTER DELETE ON servers FOR EACH ROW
    EXECUTE FUNCTION parley_audit_v1('without');
"""
# Whole tables, without the columns that the program keeps.
AUDITED = {
    "personas": (),
    "role_grants": (),
    "channel_modes": (),
    "data_sources": (),
    "agents": ("card", "card_fetched_at", "last_error"),
    "mcp_servers": ("pinned_at", "last_connected_at", "last_error"),
}
KEEP = """
CREATE FUNCTION parley_keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_log is append-only: its entries are neither changed nor deleted';
END
$$;
COMMENT ON FUNCTION parley_keep_audit IS 'Trigger: refuses to change audit_log.';
CREATE TRIGGER parley_keep_audit BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION parley_keep_audit();
REVOKE INSERT, UPDATE, DELETE ON audit_log FROM parley_app;
"""


def upgrade() -> None:
    """Make the log, its triggers, and the schema."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "audit_log",
        sa.Column(
            "id",
            sa.BigInteger(),
            sa.Identity(always=True),
            nullable=False,
            comment="The entry's number: admin.undo(number).",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
            comment="When it was changed.",
        ),
        sa.Column("table_name", sa.Text(), nullable=False, comment="The table."),
        sa.Column("row_id", sa.BigInteger(), nullable=False, comment="The row's number there."),
        sa.Column("action", sa.Text(), nullable=False, comment="insert, update or delete."),
        sa.Column(
            "old_values",
            JSONB(),
            nullable=True,
            comment="Before: of an update what has changed, of a deletion all; NULL: inserted.",
        ),
        sa.Column(
            "new_values",
            JSONB(),
            nullable=True,
            comment="After: of an update what has changed, of an insertion all; NULL: deleted.",
        ),
        sa.Column("database_user", sa.Text(), nullable=False, comment="The role that was connected to the database."),
        sa.Column(
            "actor",
            sa.Text(),
            nullable=True,
            comment="Who, as the program says: cli, an account such as discord:80351110224678912; NULL: psql.",
        ),
        sa.Column("undoes", sa.BigInteger(), nullable=True, comment="The entry that this one takes back."),
        sa.Column(
            "previous_hash", sa.LargeBinary(), nullable=True, comment="The hash of the entry before; NULL: the first."
        ),
        sa.Column("hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the entry and of previous_hash."),
        sa.CheckConstraint(
            "action IN ('insert', 'update', 'delete')", name=op.f("audit_log_action_is_insert_update_or_delete")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_log")),
        comment="What was changed of budgets, permissions, personas, agents, servers and sources, by whom."
        " Append-only: each entry holds the hash of the one before.",
    )
    op.create_index(op.f("ix_audit_log_undoes"), "audit_log", ["undoes"])
    op.create_index("ix_audit_log_table_name_row_id", "audit_log", ["table_name", "row_id"])
    for name in LOG:
        _run_file(name)
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
    op.execute(
        "GRANT EXECUTE ON FUNCTION parley_without_secrets_v1, parley_audit_hash_v1, parley_verify_audit_v1 TO parley_app"
    )
    _run(KEEP)
    _run(TRIGGERS)
    for table, kept in AUDITED.items():
        columns = "".join(f", '{each}'" for each in kept)
        op.execute(
            f"CREATE TRIGGER parley_audit AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"
            f" EXECUTE FUNCTION parley_audit_v1('without'{columns})"
        )
    op.execute("CREATE SCHEMA admin")
    op.execute("COMMENT ON SCHEMA admin IS 'Views and functions for admins: \\dv admin.* and \\df admin.* list them.'")
    for name in ADMIN:
        _run_file(name)
    op.execute("GRANT USAGE ON SCHEMA admin TO parley_app")
    op.execute("GRANT SELECT ON ALL TABLES IN SCHEMA admin TO parley_app")


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP SCHEMA admin CASCADE")
    for table in AUDITED:
        op.execute(f"DROP TRIGGER parley_audit ON {table}")
    for table in ("users", "servers"):
        for action in ("insert", "update", "delete"):
            op.execute(f"DROP TRIGGER parley_audit_{action} ON {table}")
    op.execute("DROP FUNCTION parley_verify_audit_v1, parley_audit_v1, parley_without_secrets_v1")
    op.execute("DROP FUNCTION parley_audit_hash_v1")
    op.drop_table("audit_log")
    op.execute("DROP FUNCTION parley_keep_audit")


def _run_file(name: str) -> None:
    _run((SQL / f"{name}.sql").read_text("utf-8"))


def _run(statements: str) -> None:
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
