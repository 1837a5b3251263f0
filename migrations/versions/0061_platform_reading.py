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


def downgrade() -> None:
    """Take the column and the index away."""
    op.drop_index(op.f("ix_confirmations_expires_at"), table_name="confirmations")
    op.drop_column("channel_modes", "answers_others")
