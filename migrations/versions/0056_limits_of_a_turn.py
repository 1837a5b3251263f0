"""What limits a turn is read in a third of the time: what an installation does not have is not searched.

The release before calls `parley_turn_limits_v1`.
"""

from pathlib import Path

from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
NAME = "parley_turn_limits_v2"


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
