"""Planner mode: chosen for a persona or left to PLANNER_PERCENT, noted with each turn so that the modes compare.

`personas.loop_mode` was 'native' for everybody, and nobody could choose yet: NULL now means that the setting decides. The
release before reads none of these columns and fills in their defaults. A plan stays with the answer that it was, because
calls that wait for others are not recorded before they can run.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

CHOSEN = "native: the model calls tools; planner: it writes a plan; NULL: as PLANNER_PERCENT says."


def upgrade() -> None:
    """Let the setting choose, and note the mode, the waves and the plans."""
    op.alter_column(
        "personas",
        "loop_mode",
        existing_type=sa.Text(),
        nullable=True,
        server_default=None,
        comment=CHOSEN,
        existing_comment="native or planner.",
    )
    op.execute("UPDATE personas SET loop_mode = NULL WHERE loop_mode = 'native'")
    op.add_column(
        "turns",
        sa.Column(
            "loop_mode",
            sa.Text(),
            server_default="native",
            nullable=False,
            comment="native: the model called tools; planner: it wrote plans.",
        ),
    )
    op.add_column(
        "turns",
        sa.Column(
            "waves",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="Waves of tool calls, one after the other; counted at the end.",
        ),
    )
    op.create_check_constraint(
        op.f("turns_loop_mode_is_native_or_planner"), "turns", "loop_mode IN ('native', 'planner')"
    )
    op.add_column(
        "messages",
        sa.Column(
            "plan",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="Planner mode: the plan that this answer was; NULL for all else.",
        ),
    )


def downgrade() -> None:
    """Forget the plans; every persona is native again."""
    op.drop_column("messages", "plan")
    op.drop_column("turns", "waves")
    op.drop_column("turns", "loop_mode")
    op.execute("UPDATE personas SET loop_mode = 'native' WHERE loop_mode IS NULL")
    op.alter_column(
        "personas",
        "loop_mode",
        existing_type=sa.Text(),
        nullable=False,
        server_default="native",
        comment="native or planner.",
        existing_comment=CHOSEN,
    )
