"""Replies have a deadline and an order in their place, and the queue has one job for each place."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0059"
down_revision = "0058"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTIONS = (
    "parley_claim_replies_v1",
    "parley_fail_reply_v1",
    "parley_mark_delivered_v1",
    "parley_queue_turn_v1",
    "parley_finish_jobs_v1",
)
OPEN = "status IN ('pending', 'claimed')"
WAITING = "status = 'todo'::procrastinate_job_status AND queue_name = 'turns'"


def upgrade() -> None:
    """Make the columns, the indexes, the table of outages and the functions."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.add_column(
        "outbox",
        sa.Column(
            "place_key",
            sa.Text(),
            server_default="",
            nullable=False,
            comment="Canonical text of the place; its replies are sent in the order of their ids.",
        ),
    )
    op.add_column(
        "outbox",
        sa.Column(
            "lost_seconds",
            sa.Double(),
            server_default=sa.text("0"),
            nullable=False,
            comment="For how long all its deliveries have ended with their sender.",
        ),
    )
    op.add_column(
        "outbox", sa.Column("tried_at", sa.DateTime(timezone=True), comment="When its last delivery began or failed.")
    )
    op.create_index("ix_outbox_by_place", "outbox", ["place_key", "id"], postgresql_where=sa.text(OPEN))
    op.create_table(
        "delivery_outages",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("door", sa.Text(), nullable=False, comment="The adapter whose platform does not answer."),
        sa.Column(
            "scope", sa.Text(), nullable=False, comment="The server or workspace that is away; empty for the platform."
        ),
        sa.Column("place_key", sa.Text(), nullable=False, comment="The place where it was noticed first."),
        sa.Column(
            "is_down",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Did it fail in a second place, too? Then one reply at a time asks whether it is back.",
        ),
        sa.Column("failures", sa.Integer(), server_default=sa.text("1"), nullable=False, comment="Failures in a row."),
        sa.Column("next_probe_at", sa.DateTime(timezone=True), nullable=False, comment="When the next reply may ask."),
        sa.Column("error", sa.Text(), nullable=False, comment="How the last delivery failed."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery_outages")),
        sa.UniqueConstraint("door", "scope", name=op.f("uq_delivery_outages_door_scope")),
        comment="Platforms that did not take the last reply; the row goes with the next reply that they take.",
    )
    op.create_index(
        "ix_procrastinate_jobs_waiting",
        "procrastinate_jobs",
        [sa.text("coalesce(args ->> 'server', '')"), sa.text("priority DESC"), "id"],
        postgresql_where=sa.text(WAITING),
    )
    op.create_index(
        "ix_procrastinate_jobs_open",
        "procrastinate_jobs",
        ["lock"],
        postgresql_where=sa.text("status IN ('todo'::procrastinate_job_status, 'doing'::procrastinate_job_status)"),
    )
    for name in FUNCTIONS:
        # The driver takes the text as it stands: no parameters, so several statements at once.
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {name}")
    op.drop_index("ix_procrastinate_jobs_open", "procrastinate_jobs")
    op.drop_index("ix_procrastinate_jobs_waiting", "procrastinate_jobs")
    op.drop_table("delivery_outages")
    op.drop_index("ix_outbox_by_place", "outbox")
    for name in ("tried_at", "lost_seconds", "place_key"):
        op.drop_column("outbox", name)
