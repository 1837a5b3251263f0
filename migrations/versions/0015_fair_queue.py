"""Jobs are taken fairly: a function that skips persons and servers with many turns in work, and an index for the order.

Each job's priority counts the open messages of its sender, which the index finds. Workers of the previous release take
jobs with the queue's own function, which follows the same priorities.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTION = "parley_take_jobs_v1"


def upgrade() -> None:
    """Add the index and the function."""
    op.create_index(
        "ix_inbox_open_by_person",
        "inbox",
        ["platform", "platform_user_id", "id"],
        postgresql_where=sa.text("status IN ('waiting', 'claimed')"),
    )
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql((SQL / f"{FUNCTION}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {FUNCTION} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {FUNCTION} TO parley_app")


def downgrade() -> None:
    """Drop them."""
    op.execute(f"DROP FUNCTION {FUNCTION}")
    op.drop_index("ix_inbox_open_by_person", "inbox")
