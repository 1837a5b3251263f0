"""The begin of a turn is durable: after a crash of the server, no turn's id is given out a second time.

`parley_open_turn_v1` stays for the release before, which calls it.
"""

from pathlib import Path

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTION = "parley_open_turn_v2"


def upgrade() -> None:
    """Make the function; only the program may call it."""
    op.get_bind().exec_driver_sql((SQL / f"{FUNCTION}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {FUNCTION} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {FUNCTION} TO parley_app")


def downgrade() -> None:
    """Drop it; the release before calls v1."""
    op.execute(f"DROP FUNCTION {FUNCTION}")
