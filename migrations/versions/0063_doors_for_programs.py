"""Programs that call name the person they speak for, and bring instructions and history of their own."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0063"
down_revision = "0062"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
DROP_REQUESTS = "parley_drop_requests_v1"
REQUEST = (
    "What a program's request brings beside its message: instructions, history, options; removed once the message is"
    " answered."
)
MAX_TEMPERATURE = "Highest temperature that a program may ask for here, 0 to 2; a higher one is refused; NULL: 2."


def upgrade() -> None:
    """Add what a request brings, the trigger that drops it, and what a persona allows of it."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.add_column("inbox", sa.Column("request", postgresql.JSONB(astext_type=sa.Text()), comment=REQUEST))
    op.get_bind().exec_driver_sql((SQL / f"{DROP_REQUESTS}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {DROP_REQUESTS} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {DROP_REQUESTS} TO parley_app")
    op.execute(
        "CREATE TRIGGER parley_drop_requests BEFORE UPDATE OF status ON inbox FOR EACH ROW"
        " WHEN (NEW.request IS NOT NULL AND NEW.status NOT IN ('waiting', 'claimed'))"
        f" EXECUTE FUNCTION {DROP_REQUESTS}()"
    )
    op.add_column("personas", sa.Column("max_temperature", sa.Float(), comment=MAX_TEMPERATURE))
    op.create_check_constraint(
        op.f("personas_max_temperature_is_0_to_2"), "personas", "max_temperature BETWEEN 0 AND 2"
    )


def downgrade() -> None:
    """Take all of it back."""
    op.drop_column("personas", "max_temperature")
    op.execute("DROP TRIGGER parley_drop_requests ON inbox")
    op.execute(f"DROP FUNCTION {DROP_REQUESTS}")
    op.drop_column("inbox", "request")
