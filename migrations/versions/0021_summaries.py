"""Summaries of conversations, written in the background by whichever worker claims them.

A conversation that was never summarised is looked at when something is said there again, and from the turn on that the
model is still shown: what was dropped before this release is not read again. The release before leaves the new columns
alone; a conversation that it opens is due by the column's default.
"""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTIONS = ("parley_charge_summary_v1", "parley_forget_summaries_v1")
# As they were, and as they are now.
COMMENTS = {
    "is_summarized": ("Does the summary hold what was dropped?", "Does the summary hold all that was said?"),
    "summary": ("What was said before the window of history.", "What was said up to summarized_turn_id, in short."),
}


def _columns() -> tuple["sa.Column[Any]", ...]:
    return (
        sa.Column(
            "summarized_turn_id",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="The summary holds what was said up to this turn.",
        ),
        sa.Column(
            "summary_due_at",
            sa.DateTime(timezone=True),
            comment="When a worker looks whether to summarise; NULL: nothing was said since the summary.",
        ),
        sa.Column(
            "summary_is_urgent",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Summarise without waiting for a pause: the history is too long, or a summary was withdrawn.",
        ),
        sa.Column(
            "summary_claimed_until",
            sa.DateTime(timezone=True),
            comment="A worker writes the summary until then; NULL: none does.",
        ),
        sa.Column(
            "summary_tokens_held",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Tokens of the person's or the server's budget that the summary being written holds.",
        ),
        sa.Column(
            "summary_failures",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="Attempts in a row that gave no summary; the next one waits the longer.",
        ),
        sa.Column("summary_error", sa.Text(), comment="Why the last attempt gave no summary; NULL: it gave one."),
    )


def upgrade() -> None:
    """Add the columns, the table and the functions."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for column in _columns():
        op.add_column("conversations", column)
    # Behind the column, so that only new rows get it.
    op.alter_column("conversations", "summary_due_at", server_default=sa.text("now() + interval '30 minutes'"))
    op.create_check_constraint(
        op.f("conversations_summary_tokens_held_is_not_negative"), "conversations", "summary_tokens_held >= 0"
    )
    op.create_index(
        "ix_conversations_summary_due",
        "conversations",
        ["summary_due_at"],
        postgresql_where=sa.text("summary_due_at IS NOT NULL"),
    )
    op.execute("UPDATE conversations SET summarized_turn_id = window_turn_id - 1 WHERE window_turn_id > 0")
    for name, (_, after) in COMMENTS.items():
        op.execute(f"COMMENT ON COLUMN conversations.{name} IS '{after}'")
    op.create_table(
        "summaries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("conversation_id", sa.BigInteger(), nullable=False, comment="The conversation."),
        sa.Column("last_turn_id", sa.BigInteger(), nullable=False, comment="It holds what was said up to this turn."),
        sa.Column(
            "content", sa.Text(), nullable=False, comment="The summary; empty: the conversation began afresh here."
        ),
        sa.Column("model", sa.Text(), comment="The model that wrote it; NULL: none, it was extracted."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_summaries_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_summaries")),
        sa.UniqueConstraint("conversation_id", "last_turn_id", name=op.f("uq_summaries_conversation_id_last_turn_id")),
        comment="Each summary of a conversation as it was written; the newest is conversations.summary.",
    )
    for name in FUNCTIONS:
        # The driver takes the text as it stands: no parameters, so several statements at once.
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {name}")
    op.drop_table("summaries")
    for name, (before, _) in COMMENTS.items():
        op.execute(f"COMMENT ON COLUMN conversations.{name} IS '{before}'")
    op.drop_index("ix_conversations_summary_due", "conversations")
    for column in reversed(_columns()):
        op.drop_column("conversations", column.name)
