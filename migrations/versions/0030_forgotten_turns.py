"""Turns that a person asked to forget: nobody remembers or summarises them later."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTION = "parley_forget_turns_v1"


def upgrade() -> None:
    """Make the table and the function."""
    op.create_table(
        "forgotten_turns",
        sa.Column("turn_id", sa.BigInteger(), autoincrement=False, nullable=False, comment="The turn."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_forgotten_turns_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("turn_id", name=op.f("pk_forgotten_turns")),
        comment="Turns that their person asked to forget: no memory or summary is made of them.",
    )
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql((SQL / f"{FUNCTION}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {FUNCTION} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {FUNCTION} TO parley_app")


def downgrade() -> None:
    """Drop them."""
    op.execute(f"DROP FUNCTION {FUNCTION}")
    op.drop_table("forgotten_turns")
