"""An erasure removes messages without a turn, those of an account that was linked elsewhere, and Slack's lists of accounts.

The release before calls `parley_erase_person_v1`.
"""

from pathlib import Path

from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
NAME = "parley_erase_person_v2"


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
