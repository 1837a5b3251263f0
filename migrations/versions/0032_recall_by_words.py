"""Recall by words in one round trip."""

from pathlib import Path

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTION = "parley_recall_by_words_v1"


def upgrade() -> None:
    """Make the function."""
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql((SQL / f"{FUNCTION}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {FUNCTION} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {FUNCTION} TO parley_app")


def downgrade() -> None:
    """Drop it."""
    op.execute(f"DROP FUNCTION {FUNCTION}")
