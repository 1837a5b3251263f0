"""The index of vectors by scope holds whose they are, so that recall reads the index alone.

Row-level security looks at the person of each row; without that column every candidate was read from the table, too.
"""

from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

NAME, TABLE, COLUMNS = "ix_memory_vectors_of_scope", "memory_vectors", ["scope_id", "model", "kind"]


def upgrade() -> None:
    """Make the index anew."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_index(NAME, TABLE)
    op.create_index(NAME, TABLE, COLUMNS, postgresql_include=["memory_id", "user_id", "embedding"])


def downgrade() -> None:
    """Make it as it was."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_index(NAME, TABLE)
    op.create_index(NAME, TABLE, COLUMNS, postgresql_include=["memory_id", "embedding"])
