"""Versions of personas, and with each turn the version that answered.

`parley_open_turn_v3` stays for the release before, which calls it; its turns name no version.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
WRITE, OPEN = "parley_write_persona_version_v1", "parley_open_turn_v4"
KEEP = """
CREATE FUNCTION parley_keep_persona_versions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'persona_versions is append-only: turns refer to its rows';
END
$$;
COMMENT ON FUNCTION parley_keep_persona_versions IS 'Trigger: refuses to change persona_versions.';
CREATE TRIGGER parley_keep_persona_versions BEFORE UPDATE OR DELETE OR TRUNCATE ON persona_versions
    FOR EACH STATEMENT EXECUTE FUNCTION parley_keep_persona_versions();
REVOKE INSERT, UPDATE, DELETE ON persona_versions FROM parley_app;
REVOKE INSERT ON persona_versions FROM parley_admin;
"""
TRIGGER = """
CREATE TRIGGER parley_write_persona_version AFTER INSERT OR UPDATE OR DELETE ON personas
    FOR EACH ROW EXECUTE FUNCTION parley_write_persona_version_v1();
"""
FIRST = """
INSERT INTO persona_versions (persona_id, version, name, action, fields, database_user, created_at)
SELECT id, 1, name, 'insert', to_jsonb(personas) - '{id,created_at}'::text[], session_user, created_at FROM personas
"""


def upgrade() -> None:
    """Make the table, the trigger and the functions; the personas of now are each the first version."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "persona_versions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("persona_id", sa.BigInteger(), nullable=False, comment="The persona; it may be deleted."),
        sa.Column("version", sa.Integer(), nullable=False, comment="Counts from 1 for each persona."),
        sa.Column("name", sa.Text(), nullable=False, comment="Its name in this version."),
        sa.Column("action", sa.Text(), nullable=False, comment="insert, update or delete."),
        sa.Column(
            "fields",
            JSONB(),
            nullable=False,
            comment="The columns of the persona after the change; of a deleted one as they were.",
        ),
        sa.Column("database_user", sa.Text(), nullable=False, comment="The role that was connected to the database."),
        sa.Column(
            "actor",
            sa.Text(),
            nullable=True,
            comment="Who, as the program says: cli, an account such as discord:80351110224678912; NULL: psql.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "action IN ('insert', 'update', 'delete')", name=op.f("persona_versions_action_is_insert_update_or_delete")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_persona_versions")),
        sa.UniqueConstraint("persona_id", "version", name=op.f("uq_persona_versions_persona_id_version")),
        comment="What each persona was after each change. Append-only; a trigger writes it.",
    )
    op.create_index(op.f("ix_persona_versions_name"), "persona_versions", ["name"])
    op.execute(FIRST)
    op.add_column(
        "turns",
        sa.Column(
            "persona_version_id",
            sa.BigInteger(),
            nullable=True,
            comment="The row of persona_versions that answered, which is kept; NULL: the built-in persona.",
        ),
    )
    for name in (WRITE, OPEN, "admin/persona_versions_v1"):
        _run((SQL / f"{name}.sql").read_text("utf-8"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {WRITE}, {OPEN} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {OPEN} TO parley_app")
    op.execute("GRANT SELECT ON admin.persona_versions TO parley_app")
    _run(KEEP)
    _run(TRIGGER)


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute("DROP FUNCTION admin.rollback_persona, admin.find_persona")
    op.execute("DROP VIEW admin.persona_versions")
    op.execute("DROP TRIGGER parley_write_persona_version ON personas")
    op.execute(f"DROP FUNCTION {WRITE}, {OPEN}")
    op.drop_column("turns", "persona_version_id")
    op.drop_table("persona_versions")
    op.execute("DROP FUNCTION parley_keep_persona_versions")


def _run(statements: str) -> None:
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
