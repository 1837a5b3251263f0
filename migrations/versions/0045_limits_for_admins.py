"""A view of all limits, and functions that set and extend them."""

from pathlib import Path

from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"


def upgrade() -> None:
    """Make them."""
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql((SQL / "admin" / "budgets_v1.sql").read_text("utf-8").replace("%", "%%"))
    op.execute("GRANT SELECT ON admin.budgets TO parley_app")
    op.execute("GRANT SELECT ON budgets, budget_grants, model_prices TO parley_readonly")
    op.execute("GRANT EXECUTE ON FUNCTION parley_granted_v1, parley_limit_period_v1 TO parley_readonly")


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP FUNCTION admin.grant_more, admin.set_limit")
    op.execute("DROP VIEW admin.budgets")
