"""Whether a job waits for the place of the one that ends is found without reading the queue."""

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None

NAME, TABLE = "ix_procrastinate_jobs_waiting_lock", "procrastinate_jobs"


def upgrade() -> None:
    """Make the index; the table holds what waits and what ended lately."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_index(NAME, TABLE, ["lock"], postgresql_where=sa.text("status = 'todo'"))


def downgrade() -> None:
    """Drop it."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_index(NAME, TABLE)
