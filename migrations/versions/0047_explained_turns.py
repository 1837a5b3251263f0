"""Why a turn went as it did, from one function of the database.

The release before stores less with a turn, and its turns are explained as far as they go.
"""

from pathlib import Path

from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTIONS = ("parley_explain_turn_v1", "parley_turn_limits_v1")
TABLE = (
    "What the prompts of turns were made of, for parley explain: numbers and ids, no text.",
    "Why turns went as they did, for parley explain: names, numbers and ids, no text of people.",
)
COLUMN = (
    "How much history and summary, and which memories with which scores, images and quotes.",
    (
        "What the prompt was made of, with the scores of memories; why the persona; tools offered and removed;"
        " what the budget said; the attempts on routes."
    ),
)


def upgrade() -> None:
    """Make the functions."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in (*FUNCTIONS, "admin/explain_v1"):
        # The driver takes the text as it stands: no parameters, so several statements at once.
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {', '.join(FUNCTIONS)} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {', '.join(FUNCTIONS)} TO parley_app")
    _comment(1)


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute("DROP FUNCTION admin.explain_turn")
    op.execute(f"DROP FUNCTION {', '.join(FUNCTIONS)}")
    _comment(0)


def _comment(release: int) -> None:
    op.execute(f"COMMENT ON TABLE turn_contexts IS '{TABLE[release]}'")
    op.execute(f"COMMENT ON COLUMN turn_contexts.reasons IS '{COLUMN[release]}'")
