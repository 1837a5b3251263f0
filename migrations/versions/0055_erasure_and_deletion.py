"""Erasures and deletions find what they did not find, and a pause outlives its end.

An erasure also removes messages without a turn, those of an account that was linked to somebody else since, and the
account in Slack's user groups; the release before calls `parley_erase_person_v1`. A message that is deleted on its
platform when the inbox has no row of it any more is found by its memories. What is said during a pause is not remembered
when the pause is over.
"""

from pathlib import Path

from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
NAMES = ("parley_erase_person_v2", "parley_turns_of_messages_v1")
PAUSE = "parley_forget_paused_v1"


def upgrade() -> None:
    """Make the functions."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in NAMES:
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")
    op.get_bind().exec_driver_sql((SQL / f"{PAUSE}.sql").read_text("utf-8"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {PAUSE} FROM PUBLIC")
    op.execute(
        f"CREATE TRIGGER parley_forget_paused BEFORE INSERT ON unremembered_turns FOR EACH ROW EXECUTE FUNCTION {PAUSE}()"
    )


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute("DROP TRIGGER parley_forget_paused ON unremembered_turns")
    for name in (*NAMES, PAUSE):
        op.execute(f"DROP FUNCTION {name}")
