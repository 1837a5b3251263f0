"""Erasures and deletions find what they did not find.

An erasure also removes messages without a turn, those of an account that was linked to somebody else since, and the
account in Slack's user groups; the release before calls `parley_erase_person_v1`. A message that is deleted on its
platform when the inbox has no row of it any more is found by its memories.
"""

from pathlib import Path

from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
NAMES = ("parley_erase_person_v2", "parley_turns_of_messages_v1")


def upgrade() -> None:
    """Make the functions."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in NAMES:
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in NAMES:
        op.execute(f"DROP FUNCTION {name}")
