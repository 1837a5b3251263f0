"""What chat platforms with servers need: where the agent answers, what roles give, server budgets, its own accounts.

`bots` and `servers` change with every request and every model call: room for updates in place. The new columns have
defaults or may be NULL, so that the release before goes on writing.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


BUSY = ("bots", "servers", "shards")
EAGER = """
ALTER TABLE {table} SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500)
"""


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "bots",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("platform", sa.Text(), nullable=False, comment="The platform."),
        sa.Column("token_hash", sa.Text(), nullable=False, comment="The first digits of the token's SHA-256."),
        sa.Column(
            "next_request_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the requests made so far have their room.",
        ),
        sa.Column("commands_hash", sa.Text(), nullable=True, comment="SHA-256 of the commands that were last synced."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bots")),
        sa.UniqueConstraint("platform", "token_hash", name=op.f("uq_bots_platform_token_hash")),
        comment="The agent's own accounts: one pace of requests over all processes, one set of commands.",
    )
    op.create_table(
        "channel_modes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("platform", sa.Text(), server_default="discord", nullable=False, comment="The platform."),
        sa.Column("platform_server_id", sa.Text(), nullable=True, comment="Server; NULL: whichever has the channel."),
        sa.Column(
            "platform_channel_id",
            sa.Text(),
            nullable=True,
            comment="Channel; its threads do as it does. NULL: all channels of the server.",
        ),
        sa.Column(
            "mode",
            sa.Text(),
            server_default="mention",
            nullable=False,
            comment="mention: when it is called; always: to every message; off: never.",
        ),
        sa.Column(
            "thread_per_question",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Answer each question in a thread of its own?",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "mode IN ('mention', 'always', 'off')", name=op.f("channel_modes_mode_is_mention_always_or_off")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_channel_modes")),
        sa.UniqueConstraint(
            "platform",
            "platform_server_id",
            "platform_channel_id",
            name="uq_channel_modes_place",
            postgresql_nulls_not_distinct=True,
        ),
        comment="Where the agent answers, and to what. A change counts from the next message on.",
    )
    op.create_table(
        "role_grants",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("platform", sa.Text(), server_default="discord", nullable=False, comment="The platform."),
        sa.Column("server", sa.Text(), nullable=False, comment="Id of the server that the role is on."),
        sa.Column("role", sa.Text(), nullable=False, comment="Id of the role."),
        sa.Column(
            "permission_level",
            sa.Text(),
            nullable=True,
            comment="guest, user, admin or owner, on this server only; NULL: leaves it.",
        ),
        sa.Column(
            "token_budget",
            sa.BigInteger(),
            nullable=True,
            comment="Tokens in 30 days, if that is more than the person's own; NULL: leaves it.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "permission_level IN ('guest', 'user', 'admin', 'owner')",
            name=op.f("role_grants_permission_level_is_guest_user_admin_or_owner"),
        ),
        sa.CheckConstraint("token_budget >= 0", name=op.f("role_grants_token_budget_is_not_negative")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_role_grants")),
        sa.UniqueConstraint("platform", "server", "role", name=op.f("uq_role_grants_platform_server_role")),
        comment="What roles give; the highest wins, and it goes with the role. Counts from the next message on.",
    )
    op.create_table(
        "servers",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("platform", sa.Text(), server_default="discord", nullable=False, comment="The platform."),
        sa.Column("platform_server_id", sa.Text(), nullable=False, comment="The server."),
        sa.Column("name", sa.Text(), nullable=True, comment="Its name, as last seen."),
        sa.Column(
            "token_budget_monthly",
            sa.BigInteger(),
            nullable=True,
            comment="Tokens that all people together may use in a period of 30 days; NULL: unlimited.",
        ),
        sa.Column(
            "tokens_used_this_month",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Tokens spent since the period began.",
        ),
        sa.Column(
            "tokens_reserved",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Tokens held by model calls that are running now.",
        ),
        sa.Column(
            "budget_reset_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now() + interval '30 days'"),
            nullable=False,
            comment="END of the period.",
        ),
        sa.Column(
            "welcomed_at", sa.DateTime(timezone=True), nullable=True, comment="When the agent introduced itself; once."
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("token_budget_monthly >= 0", name=op.f("servers_token_budget_monthly_is_not_negative")),
        sa.CheckConstraint("tokens_reserved >= 0", name=op.f("servers_tokens_reserved_is_not_negative")),
        sa.CheckConstraint("tokens_used_this_month >= 0", name=op.f("servers_tokens_used_this_month_is_not_negative")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_servers")),
        sa.UniqueConstraint("platform", "platform_server_id", name=op.f("uq_servers_platform_platform_server_id")),
        comment="Servers. token_budget_monthly limits what all people together may spend there.",
    )
    op.create_table(
        "member_roles",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("platform", sa.Text(), nullable=False, comment="The platform."),
        sa.Column("platform_user_id", sa.Text(), nullable=False, comment="The account."),
        sa.Column("server", sa.Text(), nullable=False, comment="The server."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="The account's user."),
        sa.Column(
            "roles",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
            comment="Ids of the roles.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_member_roles_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_member_roles")),
        sa.UniqueConstraint(
            "platform", "platform_user_id", "server", name=op.f("uq_member_roles_platform_platform_user_id_server")
        ),
        comment="Roles of accounts on servers, as last seen there; the program keeps them.",
    )
    op.create_index(op.f("ix_member_roles_user_id"), "member_roles", ["user_id"], unique=False)
    op.create_table(
        "shards",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("bot_id", sa.BigInteger(), nullable=False, comment="The account."),
        sa.Column("shard_id", sa.Integer(), nullable=False, comment="Number of the shard, from 0."),
        sa.Column("holder", sa.Text(), nullable=True, comment="The process that holds it."),
        sa.Column(
            "leased_until", sa.DateTime(timezone=True), nullable=True, comment="Until when, unless it is renewed."
        ),
        sa.Column(
            "seen_id",
            sa.Text(),
            nullable=True,
            comment="The newest message that was seen; later ones are fetched after a stop.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("shard_id >= 0", name=op.f("shards_shard_id_is_not_negative")),
        sa.ForeignKeyConstraint(["bot_id"], ["bots.id"], name=op.f("fk_shards_bot_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shards")),
        sa.UniqueConstraint("bot_id", "shard_id", name=op.f("uq_shards_bot_id_shard_id")),
        comment="Who holds the gateway connection of a shard, until when, and what it has seen.",
    )
    op.create_table(
        "feedback",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("turn_id", sa.BigInteger(), nullable=False, comment="The answer's turn."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Who says so."),
        sa.Column("score", sa.SmallInteger(), nullable=False, comment="1: good, -1: bad."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("score IN (-1, 1)", name=op.f("feedback_score_is_1_or_minus_1")),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_feedback_turn_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_feedback_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_feedback")),
        sa.UniqueConstraint("turn_id", "user_id", name=op.f("uq_feedback_turn_id_user_id")),
        comment="Thumbs up and down.",
    )
    op.create_index(op.f("ix_feedback_user_id"), "feedback", ["user_id"], unique=False)
    op.add_column(
        "budget_reservations",
        sa.Column("server_id", sa.BigInteger(), nullable=True, comment="The server whose budget holds it too."),
    )
    op.create_index(op.f("ix_budget_reservations_server_id"), "budget_reservations", ["server_id"], unique=False)
    op.create_foreign_key(
        op.f("fk_budget_reservations_server_id"),
        "budget_reservations",
        "servers",
        ["server_id"],
        ["id"],
        ondelete="SET NULL",
    )
    op.add_column(
        "inbox",
        sa.Column(
            "surroundings",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="What the platform told beside it: roles of the sender, topic, thread title, what was said before.",
        ),
    )
    op.add_column(
        "inbox",
        sa.Column(
            "edited_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When its text was changed after its turn had begun.",
        ),
    )
    op.add_column(
        "users",
        sa.Column(
            "budget_from_roles",
            sa.BigInteger(),
            nullable=True,
            comment="What the person's roles give instead, when it is more; the program keeps it.",
        ),
    )

    for table in BUSY:
        op.execute(EAGER.format(table=table))


def downgrade() -> None:
    """Drop the tables, the last made first."""
    op.drop_column("users", "budget_from_roles")
    op.drop_column("inbox", "edited_at")
    op.drop_column("inbox", "surroundings")
    op.drop_constraint(op.f("fk_budget_reservations_server_id"), "budget_reservations", type_="foreignkey")
    op.drop_index(op.f("ix_budget_reservations_server_id"), table_name="budget_reservations")
    op.drop_column("budget_reservations", "server_id")
    op.drop_index(op.f("ix_feedback_user_id"), table_name="feedback")
    op.drop_table("feedback")
    op.drop_table("shards")
    op.drop_index(op.f("ix_member_roles_user_id"), table_name="member_roles")
    op.drop_table("member_roles")
    op.drop_table("servers")
    op.drop_table("role_grants")
    op.drop_table("channel_modes")
    op.drop_table("bots")
