"""The ledger marks estimates, and a call whose worker died is charged as one; it names the reservation of each call.

The functions before stay for the release before, which calls them.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTIONS = (
    "parley_charge_v2",
    "parley_settle_v2",
    "parley_reserve_v2",
    "parley_open_turn_v3",
    "parley_record_v2",
    "parley_close_turn_v2",
    "parley_abandon_v1",
    "parley_expire_reservations_v2",
)
RESERVATION = "The reservation that the call was admitted with; NULL: it needed none."
GIVEN_BACK = "Given back by the sweeper after this."
CHARGED = "Charged as an estimate, or given back, by the sweeper after this."
ESTIMATED = "The provider reported no usage, for instance because the answer broke off or the worker died."


def upgrade() -> None:
    """Add the column and make the functions; only the program may call them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.add_column(
        "token_logs",
        sa.Column("is_estimated", sa.Boolean(), server_default=sa.text("false"), nullable=False, comment=ESTIMATED),
    )
    op.add_column("token_logs", sa.Column("reservation_id", sa.BigInteger(), comment=RESERVATION))
    op.create_unique_constraint(op.f("uq_token_logs_reservation_id"), "token_logs", ["reservation_id"])
    op.alter_column("budget_reservations", "expires_at", comment=CHARGED, existing_type=sa.DateTime(timezone=True))
    for name in FUNCTIONS:
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")


def downgrade() -> None:
    """Drop them; the release before calls the functions before."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {name}")
    op.alter_column("budget_reservations", "expires_at", comment=GIVEN_BACK, existing_type=sa.DateTime(timezone=True))
    op.drop_column("token_logs", "reservation_id")
    op.drop_column("token_logs", "is_estimated")
