"""Reminders at places keep who may have written them."""

import sqlalchemy as sa
from alembic import op

revision = "0065"
down_revision = "0064"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the author."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.add_column(
        "location_reminders",
        sa.Column(
            "author",
            sa.Text(),
            server_default="person",
            nullable=False,
            comment="Who wrote the text: the person, or perhaps a stranger.",
        ),
    )
    op.create_check_constraint(
        op.f("location_reminders_author_is_person_or_stranger"),
        "location_reminders",
        "author IN ('person', 'stranger')",
    )


def downgrade() -> None:
    """Drop it."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_column("location_reminders", "author")
