"""For how long memories are kept; results of tools that were too long for the model; what a message replies to."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
KEPT, MEMORIES, SUMMARIES = "parley_memory_kept_days_v1", "parley_expire_memories_v1", "parley_expire_summaries_v1"
OF_PLACE = "parley_place_has_memories_v1"
REPLIED_TO = "The platform_event_id of the message that it replies to, of which the model is shown the text."


def upgrade() -> None:
    """Make the tables and the functions."""
    op.create_table(
        "memory_retention",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("platform", sa.Text(), nullable=True, comment="The platform; NULL: all, and direct messages."),
        sa.Column("platform_server_id", sa.Text(), nullable=True, comment="The server; NULL: all of the platform."),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="turn: messages; fact: stated by the way; remembered: as the person asked; summary.",
        ),
        sa.Column("kept_days", sa.Integer(), nullable=False, comment="Days after which they are deleted."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "kind IN ('turn', 'fact', 'remembered', 'summary')", name=op.f("memory_retention_kind_is_known")
        ),
        sa.CheckConstraint("kept_days BETWEEN 1 AND 36500", name=op.f("memory_retention_kept_days_is_1_to_36500")),
        sa.CheckConstraint(
            "platform_server_id IS NULL OR platform IS NOT NULL", name=op.f("memory_retention_a_server_has_a_platform")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memory_retention")),
        comment="For how long memories are kept; the most specific row decides, and without one they are kept for ever.",
    )
    op.create_index(
        "uq_memory_retention_place",
        "memory_retention",
        ["kind", "platform", "platform_server_id"],
        unique=True,
        postgresql_nulls_not_distinct=True,
    )
    op.create_table(
        "full_results",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("turn_id", sa.BigInteger(), nullable=False, comment="The turn."),
        sa.Column("seq", sa.Integer(), nullable=False, comment="The position of the result's step in messages."),
        sa.Column("content", sa.Text(), nullable=False, comment="The result as JSON, up to TOOL_RESULT_KEPT_CHARS."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_full_results_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_full_results")),
        sa.UniqueConstraint("turn_id", "seq", name=op.f("uq_full_results_turn_id_seq")),
        comment="Results of tools that were too long for the model, as they came; the step has what it was shown.",
    )
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.add_column("inbox", sa.Column("replied_to", sa.Text(), nullable=True, comment=REPLIED_TO))
    for function in (KEPT, MEMORIES, SUMMARIES, OF_PLACE):
        # The driver takes the text as it stands: no parameters, so several statements at once.
        op.get_bind().exec_driver_sql((SQL / f"{function}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {function} TO parley_app")
    op.execute(
        "CREATE TRIGGER parley_audit AFTER INSERT OR UPDATE OR DELETE ON memory_retention FOR EACH ROW"
        " EXECUTE FUNCTION parley_audit_v1('without')"
    )


def downgrade() -> None:
    """Drop them."""
    for function in (OF_PLACE, SUMMARIES, MEMORIES, KEPT):
        op.execute(f"DROP FUNCTION {function}")
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_column("inbox", "replied_to")
    op.drop_table("full_results")
    op.drop_table("memory_retention")
