"""The turns whose messages are to become memories; the statement that ends a turn puts it here.

Turns that ended before, and those of the release before, are not remembered; an admin may insert their ids.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "unremembered_turns",
        sa.Column("turn_id", sa.BigInteger(), autoincrement=False, nullable=False, comment="The turn."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(
            ["turn_id"], ["turns.id"], name=op.f("fk_unremembered_turns_turn_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_unremembered_turns")),
        comment="Turns that have ended, until a worker has stored their messages as memories.",
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("unremembered_turns")
