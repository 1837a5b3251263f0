"""Commands with which people delete their own data: what waits for a person's yes, and the functions that forget."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FIND, FORGET_ALL = "parley_find_own_memories_v1", "parley_forget_all_v1"


def upgrade() -> None:
    """Make the table and the functions."""
    op.create_table(
        "command_confirmations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Who has to confirm."),
        sa.Column(
            "action",
            sa.Text(),
            nullable=False,
            comment="forget: these memories; forget_all: all of the person's; erase: the person.",
        ),
        sa.Column(
            "memory_ids",
            sa.dialects.postgresql.ARRAY(sa.BigInteger()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="The memories that were shown to the person.",
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now() + interval '10 minutes'"),
            nullable=False,
            comment="Until when it can be confirmed.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "action IN ('forget', 'forget_all', 'erase')", name=op.f("command_confirmations_action_is_known")
        ),
        sa.CheckConstraint(
            "(action = 'forget') = (memory_ids <> '{}')",
            name=op.f("command_confirmations_forgetting_names_the_memories"),
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_command_confirmations_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_command_confirmations")),
        sa.UniqueConstraint("user_id", name=op.f("uq_command_confirmations_user_id")),
        comment="Commands that delete a person's own data and wait for that person's yes; one of each person.",
    )
    for function in (FIND, FORGET_ALL):
        # The driver takes the text as it stands: no parameters, so several statements at once.
        op.get_bind().exec_driver_sql((SQL / f"{function}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {function} TO parley_app")


def downgrade() -> None:
    """Drop them."""
    for function in (FORGET_ALL, FIND):
        op.execute(f"DROP FUNCTION {function}")
    op.drop_table("command_confirmations")
