"""Nobody but the tables' owner makes triggers with the functions that act as the owner.

Whoever may execute such a function and make a temporary table could call it with rows of their own.
"""

from alembic import op

revision = "0066"
down_revision = "0065"
branch_labels = None
depends_on = None

FUNCTIONS = ", ".join(
    (
        "parley_change_memory",
        "parley_keep_pause",
        "parley_mark_owners_of_memories",
        "parley_place_memory",
        "parley_place_vector",
        "parley_remove_from_index",
    )
)


def upgrade() -> None:
    """Revoke them; a trigger that is there runs on."""
    op.execute(f"REVOKE EXECUTE ON FUNCTION {FUNCTIONS} FROM PUBLIC, parley_app, parley_admin")


def downgrade() -> None:
    """Grant them again."""
    op.execute(f"GRANT EXECUTE ON FUNCTION {FUNCTIONS} TO PUBLIC")
