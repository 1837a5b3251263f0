"""Servers say how long the files of their conversations are kept.

The release before does not read the column and keeps all files.
"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

KEPT = "Days after which files that were sent or made there are deleted; NULL: they are kept."


def upgrade() -> None:
    """Add the column."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.add_column("servers", sa.Column("files_kept_days", sa.Integer(), nullable=True, comment=KEPT))
    op.create_check_constraint(
        op.f("servers_files_kept_days_is_1_to_36500"), "servers", "files_kept_days BETWEEN 1 AND 36500"
    )


def downgrade() -> None:
    """Drop the column."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_column("servers", "files_kept_days")
