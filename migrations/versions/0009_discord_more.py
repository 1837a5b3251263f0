"""Where a message was quoted is found by its id; a question may need the yes of somebody with a higher permission.

The index holds only messages that came with others quoted beside them, which few doors tell. Building it locks `inbox`
for writing, which takes seconds where there are millions of such messages.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# Table, column, and what is said of it before and now.
COMMENTS = (
    ("confirmations", "user_id", "Who alone may answer.", "Who is asked."),
    (
        "inbox",
        "decision",
        "Its answer to one confirmation: {confirmation_id, approved}.",
        "Its answer to one confirmation: {confirmation_id, approved, approved_by}.",
    ),
)
LEVELS = "approver_level IN ('guest', 'user', 'admin', 'owner')"


def upgrade() -> None:
    """Make the index, then the columns."""
    op.create_index(
        "ix_inbox_quoted",
        "inbox",
        [sa.literal_column("(surroundings -> 'earlier')").label("earlier")],
        postgresql_using="gin",
        postgresql_ops={"earlier": "jsonb_path_ops"},
        postgresql_where=sa.text("(surroundings -> 'earlier') IS NOT NULL"),
    )
    op.add_column(
        "confirmations",
        sa.Column(
            "approver_level",
            sa.Text(),
            nullable=True,
            comment="Permission that a yes needs, the person's own or an approver's; NULL: the person's yes is enough.",
        ),
    )
    op.create_check_constraint(
        op.f("confirmations_approver_level_is_guest_user_admin_or_owner"), "confirmations", LEVELS
    )
    op.add_column(
        "confirmations",
        sa.Column("approved_by", sa.BigInteger(), nullable=True, comment="Who said yes in the person's place."),
    )
    op.create_index(op.f("ix_confirmations_approved_by"), "confirmations", ["approved_by"], unique=False)
    op.create_foreign_key(
        op.f("fk_confirmations_approved_by"), "confirmations", "users", ["approved_by"], ["id"], ondelete="SET NULL"
    )
    for table, column, before, now in COMMENTS:
        op.alter_column(table, column, comment=now, existing_comment=before)


def downgrade() -> None:
    """Drop them, the last made first."""
    for table, column, before, now in COMMENTS:
        op.alter_column(table, column, comment=before, existing_comment=now)
    op.drop_constraint(op.f("fk_confirmations_approved_by"), "confirmations", type_="foreignkey")
    op.drop_index(op.f("ix_confirmations_approved_by"), table_name="confirmations")
    op.drop_column("confirmations", "approved_by")
    op.drop_constraint(
        op.f("confirmations_approver_level_is_guest_user_admin_or_owner"), "confirmations", type_="check"
    )
    op.drop_column("confirmations", "approver_level")
    op.drop_index("ix_inbox_quoted", table_name="inbox")
