"""What the prompt of each turn was made of, for `parley explain`."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; the release before does not write it."""
    op.create_table(
        "turn_contexts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("turn_id", sa.BigInteger(), nullable=False, comment="The turn."),
        sa.Column(
            "reasons",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="How much history and summary, and which memories with which scores, images and quotes.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_turn_contexts_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turn_contexts")),
        sa.UniqueConstraint("turn_id", name=op.f("uq_turn_contexts_turn_id")),
        comment="What the prompts of turns were made of, for parley explain: numbers and ids, no text.",
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("turn_contexts")
