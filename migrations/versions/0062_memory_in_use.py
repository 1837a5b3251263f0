"""Memory is recalled by what was told, not by talk."""

import sqlalchemy as sa
from alembic import op

revision = "0062"
down_revision = "0061"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Note when something last went wrong."""
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
    """Note it no longer."""
    op.drop_column("event_totals", "last_at")
