"""Channels that Slack has limited: the processes share the pace of their calls there.

The previous release does not read it and keeps a pace of its own in each process.
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "slack_paces",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("team_id", sa.Text(), nullable=False, comment="Id of the workspace."),
        sa.Column("method", sa.Text(), nullable=False, comment="The method of the Web API."),
        sa.Column("platform_channel_id", sa.Text(), nullable=False, comment="Slack's id of the channel."),
        sa.Column(
            "next_call_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the calls reserved so far have their turn.",
        ),
        sa.Column("distance_seconds", sa.Double(), nullable=False, comment="Seconds between two calls."),
        sa.Column(
            "limited_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When Slack last refused a call.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("distance_seconds > 0", name=op.f("slack_paces_distance_is_positive")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_slack_paces")),
        sa.UniqueConstraint(
            "team_id", "method", "platform_channel_id", name=op.f("uq_slack_paces_team_id_method_platform_channel_id")
        ),
        comment="Channels that Slack has limited: one pace of calls over all processes, kept for a day.",
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("slack_paces")
