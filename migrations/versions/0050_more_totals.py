"""Totals of tool calls, of errors and of models that failed, and how many calls have no known price.

The metrics show how long tools take, which errors turns ended with, and how often another model had to answer. Tools are
counted from now on: to count those of all earlier turns would read the whole transcript.

Costs are the sum of the calls whose price is known; without the number of the others, an unknown price would read as
"free of charge".
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

COUNTED = "counted_rows_table_name_is_turns_or_token_logs"
COUNTED_NOW = "counted_rows_table_name_is_a_counted_table"


def _id() -> "sa.Column[Any]":
    return sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number.")


def _created_at() -> "sa.Column[Any]":
    return sa.Column(
        "created_at",
        sa.DateTime(timezone=True),
        server_default=sa.text("now()"),
        nullable=False,
        comment="When the row was made.",
    )


def upgrade() -> None:
    """Make the tables and the column."""
    op.create_table(
        "tool_totals",
        _id(),
        sa.Column("tool", sa.Text(), nullable=False, comment="module.tool"),
        sa.Column("outcome", sa.Text(), nullable=False, comment="result, failed, not_run or needs_approval."),
        sa.Column(
            "most_seconds",
            sa.Float(),
            nullable=False,
            comment="These calls took at most so long, and longer than the next smaller number; Infinity for the longest.",
        ),
        sa.Column("calls", sa.BigInteger(), nullable=False, comment="How many calls."),
        sa.Column("seconds", sa.Float(), nullable=False, comment="How long they took together."),
        _created_at(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_totals")),
        sa.UniqueConstraint("tool", "outcome", "most_seconds", name=op.f("uq_tool_totals_tool_outcome_most_seconds")),
        comment="Totals of tool calls in messages, as far as they are counted (counted_rows).",
    )
    op.create_table(
        "event_totals",
        _id(),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="turn_error: a turn ended with an error; route_failure: a model did not answer; fallback: another"
            " model answered in its place.",
        ),
        sa.Column("subject", sa.Text(), nullable=False, comment="The code of the error; the model that failed."),
        sa.Column(
            "detail", sa.Text(), nullable=False, comment="Why the model failed; the model that answered; else empty."
        ),
        sa.Column("events", sa.BigInteger(), nullable=False, comment="How many."),
        _created_at(),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event_totals")),
        sa.UniqueConstraint("kind", "subject", "detail", name=op.f("uq_event_totals_kind_subject_detail")),
        sa.CheckConstraint(
            "kind IN ('turn_error', 'route_failure', 'fallback')", name=op.f("event_totals_kind_is_known")
        ),
        comment="Totals of what went wrong, for the metrics.",
    )
    op.add_column(
        "call_totals",
        sa.Column(
            "unpriced",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Of these, calls whose price is unknown.",
        ),
    )
    op.drop_constraint(op.f(COUNTED), "counted_rows", type_="check")
    op.create_check_constraint(op.f(COUNTED_NOW), "counted_rows", "table_name IN ('turns', 'token_logs', 'messages')")
    op.execute("COMMENT ON COLUMN counted_rows.table_name IS 'turns, token_logs or messages.'")
    op.execute("INSERT INTO counted_rows (table_name, last_id) SELECT 'messages', coalesce(max(id), 0) FROM messages")


def downgrade() -> None:
    """Drop them."""
    op.execute("DELETE FROM counted_rows WHERE table_name = 'messages'")
    op.drop_constraint(op.f(COUNTED_NOW), "counted_rows", type_="check")
    op.create_check_constraint(op.f(COUNTED), "counted_rows", "table_name IN ('turns', 'token_logs')")
    op.execute("COMMENT ON COLUMN counted_rows.table_name IS 'turns or token_logs.'")
    op.drop_column("call_totals", "unpriced")
    op.drop_table("event_totals")
    op.drop_table("tool_totals")
