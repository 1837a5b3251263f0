"""The rules of money and of a turn, as functions of the database.

The program, psql and the command line follow the same rules by calling them. Each stands in a file of
`migrations/sql/`, named after it; `migrations/sql/README.md` says how a rule is changed.
"""

from pathlib import Path

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"

# A function comes after those whose bodies are bound to it.
FUNCTIONS = (
    "parley_budget_v1",
    "parley_charge_v1",
    "parley_reserve_v1",
    "parley_settle_v1",
    "parley_release_v1",
    "parley_expire_reservations_v1",
    "parley_write_journal_v1",
    "parley_record_v1",
    "parley_open_turn_v1",
    "parley_close_turn_v1",
)


def upgrade() -> None:
    """Make the functions; they run with the rights of whoever calls them, and only the program may."""
    for name in FUNCTIONS:
        # The driver takes the text as it stands: no parameters, so several statements at once.
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")


def downgrade() -> None:
    """Drop them, the last made first."""
    for name in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {name}")
