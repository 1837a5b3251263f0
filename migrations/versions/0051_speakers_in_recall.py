"""Recall knows who said what: texts that are embedded name their speaker, and a question that names one counts more.

`parley_texts_to_embed_v1` stays: `parley_store_vectors_v1` compares versions with it. The release before calls
`parley_recall_by_words_v1`.
"""

from pathlib import Path

from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
NAMES = ("parley_texts_to_embed_v2", "parley_recall_by_words_v2")


def upgrade() -> None:
    """Make the functions; the release before does not call them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in NAMES:
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in NAMES:
        op.execute(f"DROP FUNCTION {name}")
