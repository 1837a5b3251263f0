"""The metrics count the memories of all persons, and find the failed replies by an index.

The application's role sees the memories of the person it speaks with only, so it counted none; and a scrape read all
replies that there are.
"""

from pathlib import Path

from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
NAME, INDEX = "parley_count_memories_v1", "ix_outbox_failed"


def upgrade() -> None:
    """Make the function and the index."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.get_bind().exec_driver_sql((SQL / f"{NAME}.sql").read_text("utf-8"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {NAME} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {NAME} TO parley_app")
    op.create_index(INDEX, "outbox", ["id"], postgresql_where="status = 'failed'")


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_index(INDEX, "outbox")
    op.execute(f"DROP FUNCTION {NAME}")
