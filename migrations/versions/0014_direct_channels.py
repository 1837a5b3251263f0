"""Channels of direct messages are stored when a message comes from them, apart from what other callers name.

The previous release does not write here: a conversation that is begun while it runs is noted with its next message.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

# Only messages that came from Discord itself; a caller of the HTTP API may have named any channel.
KNOWN = """
INSERT INTO direct_channels (bot_id, platform_channel_id, last_active_at)
SELECT bots.id, inbox.platform_channel_id, max(inbox.created_at) FROM inbox JOIN bots ON bots.platform = 'discord'
WHERE inbox.door = 'discord' AND inbox.platform = 'discord' AND inbox.is_direct
  AND inbox.platform_channel_id ~ '^[0-9]{1,20}$' AND inbox.created_at > now() - interval '30 days'
GROUP BY bots.id, inbox.platform_channel_id
"""


def upgrade() -> None:
    """Make the table, and fill it with the channels in use."""
    op.create_table(
        "direct_channels",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("bot_id", sa.BigInteger(), nullable=False, comment="The account."),
        sa.Column("platform_channel_id", sa.Text(), nullable=False, comment="The platform's id of the channel."),
        sa.Column(
            "last_active_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When a message last came, to the hour.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("platform_channel_id ~ '^[0-9]{1,20}$'", name=op.f("direct_channels_channel_is_a_number")),
        sa.ForeignKeyConstraint(["bot_id"], ["bots.id"], name=op.f("fk_direct_channels_bot_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_direct_channels")),
        sa.UniqueConstraint(
            "bot_id", "platform_channel_id", name=op.f("uq_direct_channels_bot_id_platform_channel_id")
        ),
        comment="Channels of direct messages, which are read after a stop.",
    )
    op.create_index("ix_direct_channels_recent", "direct_channels", ["bot_id", sa.text("last_active_at DESC")])
    op.execute(KNOWN)


def downgrade() -> None:
    """Drop it."""
    op.drop_index("ix_direct_channels_recent", table_name="direct_channels")
    op.drop_table("direct_channels")
