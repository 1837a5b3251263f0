"""Memory is recalled by what was told, not by talk."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0062"
down_revision = "0061"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
TALK = "parley_is_talk_v1"


def upgrade() -> None:
    """Note when something last went wrong; tell what was told from talk."""
    op.get_bind().exec_driver_sql((SQL / f"{TALK}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {TALK} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {TALK} TO parley_app")
    op.add_column(
        "event_totals",
        sa.Column(
            "last_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the last of them was counted.",
        ),
    )


def downgrade() -> None:
    """Drop both."""
    op.execute(f"DROP FUNCTION {TALK}")
    op.drop_column("event_totals", "last_at")
