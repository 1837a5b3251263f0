"""A fact that is stored at the moment in which its message is forgotten is forgotten, too.

`parley_forget_turns_v1` deleted the memories before it waited for a summary that was being written, so that facts that
were stored with the summary stayed. The release before still calls it.
"""

from pathlib import Path

from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
NAME = "parley_forget_turns_v2"


def upgrade() -> None:
    """Make the function."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.get_bind().exec_driver_sql((SQL / f"{NAME}.sql").read_text("utf-8"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {NAME} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {NAME} TO parley_app")


def downgrade() -> None:
    """Drop it."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute(f"DROP FUNCTION {NAME}")
