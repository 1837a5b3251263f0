"""A tool's own model call is charged as an estimate, too, when its worker dies.

The functions before stay for the release before, which calls them.
"""

from pathlib import Path

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTIONS = ("parley_abandon_v2", "parley_expire_reservations_v3")


def upgrade() -> None:
    """Make the functions; only the program may call them."""
    for name in FUNCTIONS:
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")


def downgrade() -> None:
    """Drop them; the release before calls the functions before."""
    for name in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {name}")
