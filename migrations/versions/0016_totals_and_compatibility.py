"""Totals of finished turns and model calls, and which programs may use these tables.

The metrics read all turns and the whole ledger at each scrape; the totals hold what was counted once, also after the
ledger's rows have been removed. They begin empty: the worker counts the rows that are there in small steps.

`schema_compatibility` names the oldest revision whose program still works with these tables. A migration that removes
something that a release still uses raises it; every other migration leaves it alone.

Rows of the large tables are now removed when they have expired, so that vacuum comes early, and by steps.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

# Removing a day's rows of a year's table must not wait for a fifth of the table.
EARLY_VACUUM = """
ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000)
"""
VACUUMED = ("turn_events", "confirmations", "token_logs")


def _columns(*own: sa.Column[Any]) -> tuple[sa.Column[Any], ...]:
    first: sa.Column[Any] = sa.Column(
        "id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."
    )
    last: sa.Column[Any] = sa.Column(
        "created_at",
        sa.DateTime(timezone=True),
        server_default=sa.text("now()"),
        nullable=False,
        comment="When the row was made.",
    )
    return (first, *own, last)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "turn_totals",
        *_columns(
            sa.Column("loop_mode", sa.Text(), nullable=False, comment="native or planner."),
            sa.Column(
                "outcome",
                sa.Text(),
                nullable=False,
                comment="finished, unfinished (answered, but not completely), refused, failed or cancelled.",
            ),
            sa.Column("turns", sa.BigInteger(), nullable=False, comment="How many turns."),
            sa.Column("seconds", sa.Float(), nullable=False, comment="How long they took together."),
            sa.Column("waves", sa.BigInteger(), nullable=False, comment="Their waves of tool calls."),
            sa.Column("model_calls", sa.BigInteger(), nullable=False, comment="Their model calls."),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turn_totals")),
        sa.UniqueConstraint("loop_mode", "outcome", name=op.f("uq_turn_totals_loop_mode_outcome")),
        comment="Totals of the finished turns of messages, as far as they are counted (counted_rows).",
    )
    op.create_table(
        "call_totals",
        *_columns(
            sa.Column("model", sa.Text(), nullable=False, comment="litellm name of the model that answered."),
            sa.Column("purpose", sa.Text(), nullable=False, comment="answer, summary, embedding, …"),
            sa.Column("calls", sa.BigInteger(), nullable=False, comment="How many calls."),
            sa.Column("input_tokens", sa.BigInteger(), nullable=False, comment="Tokens of the prompts."),
            sa.Column(
                "cached_tokens", sa.BigInteger(), nullable=False, comment="Of these, read from the provider's cache."
            ),
            sa.Column("output_tokens", sa.BigInteger(), nullable=False, comment="Tokens of the answers."),
            sa.Column(
                "cost", sa.Numeric(20, 8), nullable=False, comment="US dollars, of the calls whose price is known."
            ),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_call_totals")),
        sa.UniqueConstraint("model", "purpose", name=op.f("uq_call_totals_model_purpose")),
        comment="Totals of token_logs, as far as they are counted (counted_rows); they outlive those rows.",
    )
    op.create_table(
        "counted_rows",
        *_columns(
            sa.Column("table_name", sa.Text(), nullable=False, comment="turns or token_logs."),
            sa.Column(
                "last_id",
                sa.BigInteger(),
                server_default=sa.text("0"),
                nullable=False,
                comment="Rows up to this id are in the totals.",
            ),
        ),
        sa.CheckConstraint(
            "table_name IN ('turns', 'token_logs')", name=op.f("counted_rows_table_name_is_turns_or_token_logs")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_counted_rows")),
        sa.UniqueConstraint("table_name", name=op.f("uq_counted_rows_table_name")),
        comment="How far the totals have come.",
    )
    op.execute("INSERT INTO counted_rows (table_name) VALUES ('turns'), ('token_logs')")
    op.create_table(
        "schema_compatibility",
        *_columns(
            sa.Column(
                "oldest_revision",
                sa.Text(),
                nullable=False,
                comment="A program whose own revision is lower does not work with these tables.",
            )
        ),
        sa.CheckConstraint("id = 1", name=op.f("schema_compatibility_has_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_compatibility")),
        comment="Which releases may use these tables; migrations alone change it.",
    )
    op.execute("INSERT INTO schema_compatibility (id, oldest_revision) VALUES (1, '0012')")
    op.execute("REVOKE INSERT, UPDATE, DELETE ON schema_compatibility FROM parley_app")
    for table in VACUUMED:
        op.execute(EARLY_VACUUM.format(table=table))


def downgrade() -> None:
    """Drop the tables."""
    for table in VACUUMED:
        op.execute(f"ALTER TABLE {table} RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold)")
    for table in ("schema_compatibility", "counted_rows", "call_totals", "turn_totals"):
        op.drop_table(table)
