"""What Slack needs: workspaces that have installed the app with their encrypted tokens, and their user groups.

Whoever begins an installation is known by the hash of what the browser brings back. Members of groups are kept as rows,
so that every process sees a change that one of them was told of.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "slack_group_lists",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("team_id", sa.Text(), nullable=False, comment="Id of the workspace."),
        sa.Column(
            "read_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When they were read; NULL: they have changed since.",
        ),
        sa.Column(
            "changes",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="How many changes Slack has told of; a reading from before one is old.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_slack_group_lists")),
        sa.UniqueConstraint("team_id", name=op.f("uq_slack_group_lists_team_id")),
        comment="Slack workspaces whose user groups were read; the program keeps them.",
    )
    op.create_table(
        "slack_installations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("team_id", sa.Text(), nullable=False, comment="Id of the workspace."),
        sa.Column("team_name", sa.Text(), nullable=True, comment="Its name when it was installed."),
        sa.Column("enterprise_id", sa.Text(), nullable=True, comment="Id of the organisation that it belongs to."),
        sa.Column("app_id", sa.Text(), nullable=True, comment="Id of the app."),
        sa.Column("bot_id", sa.Text(), nullable=True, comment="Id of the bot there."),
        sa.Column("bot_user_id", sa.Text(), nullable=False, comment="The bot's account there."),
        sa.Column(
            "scopes", sa.Text(), server_default="", nullable=False, comment="What the bot may do, with commas between."
        ),
        sa.Column(
            "token",
            sa.Text(),
            nullable=True,
            comment="The bot's token, encrypted with SECRET_KEY; NULL: the workspace has ended it.",
        ),
        sa.Column("installed_by", sa.Text(), nullable=True, comment="Account of whoever installed it."),
        sa.Column(
            "installed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was installed last.",
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True, comment="When the token was wiped."),
        sa.Column(
            "ended_because",
            sa.Text(),
            nullable=True,
            comment="uninstalled or revoked by the workspace; removed: by this house.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "ended_because IN ('uninstalled', 'revoked', 'removed')",
            name=op.f("slack_installations_ended_because_is_a_known_reason"),
        ),
        sa.CheckConstraint(
            "(ended_at IS NULL) = (ended_because IS NULL)",
            name=op.f("slack_installations_ended_at_and_ended_because_go_together"),
        ),
        sa.CheckConstraint(
            "(token IS NULL) = (ended_at IS NOT NULL)", name=op.f("slack_installations_token_goes_when_it_ends")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_slack_installations")),
        sa.UniqueConstraint("team_id", name=op.f("uq_slack_installations_team_id")),
        comment="Slack workspaces that have installed the app. One in SLACK_BOT_TOKEN needs no row.",
    )
    op.create_table(
        "slack_oauth_states",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("state_hash", sa.Text(), nullable=False, comment="SHA-256 of what the browser brings back."),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, comment="Until when it may be finished."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_slack_oauth_states")),
        sa.UniqueConstraint("state_hash", name=op.f("uq_slack_oauth_states_state_hash")),
        comment="Installations that were begun: each may be finished once, in the same browser.",
    )
    op.create_table(
        "slack_group_members",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("list_id", sa.BigInteger(), nullable=False, comment="The reading that it comes from."),
        sa.Column("platform_user_id", sa.Text(), nullable=False, comment="The account."),
        sa.Column("group_id", sa.Text(), nullable=False, comment="Id of the group: the role of role_grants."),
        sa.Column("group_name", sa.Text(), nullable=False, comment="Its name."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(
            ["list_id"], ["slack_group_lists.id"], name=op.f("fk_slack_group_members_list_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_slack_group_members")),
        sa.UniqueConstraint(
            "list_id",
            "platform_user_id",
            "group_id",
            name=op.f("uq_slack_group_members_list_id_platform_user_id_group_id"),
        ),
        comment="Who is in which user group of Slack, as last read; role_grants says what that gives.",
    )


def downgrade() -> None:
    """Drop the tables."""
    for table in ("slack_group_members", "slack_oauth_states", "slack_installations", "slack_group_lists"):
        op.drop_table(table)
