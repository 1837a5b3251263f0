"""What a call came to, in columns of its own: until now it was read out of the result's JSON and the call's id.

`messages.outcome` says of a result whether the call succeeded, failed, was left out or waits for a person's approval.
`messages.confirmation` holds the question that waits, and on a call the question that it was made for. The release before
knows neither column and leaves them NULL: such rows are read as before.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; rows that are there keep NULL."""
    op.add_column(
        "messages",
        sa.Column(
            "outcome",
            sa.Text(),
            nullable=True,
            comment="Of a tool_result: result, failed, not_run or needs_approval; NULL in rows of older releases.",
        ),
    )
    op.add_column(
        "messages",
        sa.Column(
            "confirmation",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="Of a tool_result: the question that waits for a yes; of a tool_call: the answer that it carries out.",
        ),
    )
    op.create_check_constraint(
        op.f("messages_outcome_is_known"),
        "messages",
        "outcome IN ('result', 'failed', 'not_run', 'needs_approval')",
    )
    op.create_check_constraint(
        op.f("messages_outcome_is_of_a_result"), "messages", "outcome IS NULL OR role = 'tool_result'"
    )
    op.create_check_constraint(
        op.f("messages_confirmation_is_of_a_call"), "messages", "confirmation IS NULL OR role LIKE 'tool%'"
    )


def downgrade() -> None:
    """Drop the columns with their constraints; the JSON of the results still says the same."""
    op.drop_column("messages", "confirmation")
    op.drop_column("messages", "outcome")
