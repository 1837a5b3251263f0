"""What Discord and Slack show is read whole."""

import sqlalchemy as sa
from alembic import op

revision = "0061"
down_revision = "0060"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let a channel have the agent answer what people say to each other."""
    op.add_column(
        "channel_modes",
        sa.Column(
            "answers_others",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Answer also what people say to each other where the agent takes part?",
        ),
    )
    # Who shows that somebody is asked looks for questions that nobody has answered in time.
    op.create_index(op.f("ix_confirmations_expires_at"), "confirmations", ["expires_at"], unique=False)
    op.add_column(
        "inbox",
        sa.Column(
            "again_of",
            sa.BigInteger(),
            sa.ForeignKey("turns.id", name=op.f("fk_inbox_again_of"), ondelete="SET NULL"),
            comment="The turn whose question this click asks again; deleted with it.",
        ),
    )
    op.create_index("ix_inbox_again_of", "inbox", ["again_of"], postgresql_where=sa.text("again_of IS NOT NULL"))


def downgrade() -> None:
    """Take the columns and the index away."""
    op.drop_column("inbox", "again_of")
    op.drop_index(op.f("ix_confirmations_expires_at"), table_name="confirmations")
    op.drop_column("channel_modes", "answers_others")
