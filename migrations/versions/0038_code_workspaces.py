"""Workspaces of the module code_executor: files and variables that code finds from earlier runs.

The release before does not know the table.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "code_workspaces",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Whose it is: nobody else's code sees it."),
        sa.Column("conversation_id", sa.BigInteger(), nullable=False, comment="Where it is used."),
        sa.Column(
            "file_ids",
            postgresql.ARRAY(sa.BigInteger()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="The files of file_records in it, the oldest first.",
        ),
        sa.Column(
            "state",
            sa.LargeBinary(),
            nullable=True,
            comment="The variables, pickled; only the sandbox may load them.",
        ),
        sa.Column(
            "used_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was last used.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("cardinality(file_ids) <= 20", name=op.f("code_workspaces_has_at_most_20_files")),
        sa.CheckConstraint("octet_length(state) <= 16777216", name=op.f("code_workspaces_state_has_at_most_16_mb")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_code_workspaces_user_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_code_workspaces_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_code_workspaces")),
        sa.UniqueConstraint("user_id", "conversation_id", name=op.f("uq_code_workspaces_user_id_conversation_id")),
        comment="What code of the module code_executor finds from earlier runs; gone a week after its last use.",
    )
    op.create_index(op.f("ix_code_workspaces_conversation_id"), "code_workspaces", ["conversation_id"], unique=False)
    op.create_index(op.f("ix_code_workspaces_used_at"), "code_workspaces", ["used_at"], unique=False)


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("code_workspaces")
