"""The tables of the main path: people, personas, conversations, turns with their journal, the ledger, files, mail.

Admins change users and personas in SQL: hence constraints whose names are sentences, a comment on every column, and a
trigger that lifts the budget of whoever becomes admin or owner and refuses a time zone that does not exist.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

USER_RULES = """
CREATE FUNCTION parley_check_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.permission_level IN ('admin', 'owner') AND OLD.permission_level NOT IN ('admin', 'owner')
       AND NEW.token_budget_monthly IS NOT DISTINCT FROM OLD.token_budget_monthly THEN
        NEW.token_budget_monthly := NULL;
    END IF;
    IF NEW.time_zone <> 'UTC' AND NOT EXISTS (SELECT FROM pg_timezone_names WHERE name = NEW.time_zone) THEN
        RAISE EXCEPTION 'users_time_zone_is_known: there is no time zone "%"', NEW.time_zone
        USING ERRCODE = 'check_violation', CONSTRAINT = 'users_time_zone_is_known', TABLE = 'users',
              HINT = 'Write it as Europe/Berlin; SELECT name FROM pg_timezone_names lists them all.';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER parley_check_user BEFORE UPDATE OF permission_level, time_zone ON users
    FOR EACH ROW EXECUTE FUNCTION parley_check_user();
CREATE TRIGGER parley_check_new_user BEFORE INSERT ON users
    FOR EACH ROW WHEN (NEW.time_zone <> 'UTC') EXECUTE FUNCTION parley_check_user();
"""

# Rows of these tables change several times within a turn: room for updates in place, and vacuum before they bloat.
BUSY = ("turns", "inbox", "outbox", "users", "budget_reservations")
EAGER = """
ALTER TABLE {table} SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 500
)
"""


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "personas",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("name", sa.Text(), nullable=False, comment="A name for people, unique."),
        sa.Column("system_prompt", sa.Text(), nullable=False, comment="The instructions that the model is given."),
        sa.Column("platform", sa.Text(), nullable=True, comment="Only on this platform (discord, slack, web, …)."),
        sa.Column("platform_server_id", sa.Text(), nullable=True, comment="Only on this server or workspace."),
        sa.Column("platform_channel_id", sa.Text(), nullable=True, comment="Only in this channel."),
        sa.Column(
            "allowed_modules",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment='Modules allowed here, e.g. ["knowledge"]; NULL: all that the permission allows.',
        ),
        sa.Column(
            "default_model",
            sa.Text(),
            nullable=True,
            comment="litellm name of the model to try first; NULL: LLM_MODELS.",
        ),
        sa.Column(
            "max_tokens_per_request", sa.Integer(), nullable=True, comment="Most output tokens of one model call."
        ),
        sa.Column(
            "max_iterations",
            sa.Integer(),
            nullable=True,
            comment="Most waves of tool calls; NULL: MAX_AGENT_ITERATIONS.",
        ),
        sa.Column("loop_mode", sa.Text(), server_default="native", nullable=False, comment="native or planner."),
        sa.Column(
            "allow_mentions",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="May replies mention people?",
        ),
        sa.Column(
            "is_default",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Used where no closer persona is; at most one.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("loop_mode IN ('native', 'planner')", name=op.f("personas_loop_mode_is_native_or_planner")),
        sa.CheckConstraint("btrim(name) <> ''", name=op.f("personas_name_is_not_empty")),
        sa.CheckConstraint(
            "allowed_modules IS NULL OR (jsonb_typeof(allowed_modules) = 'array' AND NOT jsonb_path_exists(allowed_modules, '$[*] ? (@.type() != \"string\")'))",
            name=op.f("personas_allowed_modules_is_an_array_of_module_names"),
        ),
        sa.CheckConstraint("max_iterations BETWEEN 1 AND 100", name=op.f("personas_max_iterations_is_1_to_100")),
        sa.CheckConstraint("max_tokens_per_request > 0", name=op.f("personas_max_tokens_per_request_is_positive")),
        sa.CheckConstraint(
            "platform_channel_id IS NULL OR platform IS NOT NULL", name=op.f("personas_channel_needs_a_platform")
        ),
        sa.CheckConstraint(
            "platform_server_id IS NULL OR platform IS NOT NULL", name=op.f("personas_server_needs_a_platform")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_personas")),
        sa.UniqueConstraint("name", name=op.f("uq_personas_name")),
        comment="Who the agent is in a place. The closest wins: channel, server, platform, the default, the built-in one.",
    )
    op.create_index(
        "uq_personas_one_default", "personas", ["is_default"], unique=True, postgresql_where=sa.text("is_default")
    )
    op.create_index(
        "uq_personas_one_per_place",
        "personas",
        ["platform", "platform_server_id", "platform_channel_id"],
        unique=True,
        postgresql_nulls_not_distinct=True,
        postgresql_where=sa.text("platform IS NOT NULL"),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "display_name",
            sa.Text(),
            nullable=True,
            comment="How the person is called; NULL: the name on the platform.",
        ),
        sa.Column(
            "permission_level",
            sa.Text(),
            server_default="guest",
            nullable=False,
            comment="guest, user, admin or owner. Raising it to admin or owner lifts the budget.",
        ),
        sa.Column(
            "token_budget_monthly",
            sa.BigInteger(),
            server_default="50000",
            nullable=True,
            comment="Tokens allowed in a period of 30 days; NULL: unlimited.",
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
            comment="END of the period: when it has passed, the used tokens go back to 0 and it moves on by 30 days.",
        ),
        sa.Column(
            "time_zone", sa.Text(), server_default="UTC", nullable=False, comment="IANA name of the person's time zone."
        ),
        sa.Column(
            "week_start",
            sa.Text(),
            server_default="monday",
            nullable=False,
            comment="First day of the week: monday, saturday or sunday.",
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
            name=op.f("users_permission_level_is_guest_user_admin_or_owner"),
        ),
        sa.CheckConstraint(
            "week_start IN ('monday', 'saturday', 'sunday')", name=op.f("users_week_start_is_monday_saturday_or_sunday")
        ),
        sa.CheckConstraint("token_budget_monthly >= 0", name=op.f("users_token_budget_monthly_is_not_negative")),
        sa.CheckConstraint("tokens_reserved >= 0", name=op.f("users_tokens_reserved_is_not_negative")),
        sa.CheckConstraint("tokens_used_this_month >= 0", name=op.f("users_tokens_used_this_month_is_not_negative")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        comment="People. Change permission_level and token_budget_monthly here; it counts from the next message on.",
    )
    op.create_table(
        "conversations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "platform",
            sa.Text(),
            nullable=False,
            comment="discord, slack, web, terminal, or what an HTTP caller named.",
        ),
        sa.Column(
            "platform_server_id", sa.Text(), nullable=True, comment="Server or workspace; NULL in direct messages."
        ),
        sa.Column("platform_channel_id", sa.Text(), nullable=False, comment="Channel."),
        sa.Column("platform_thread_id", sa.Text(), nullable=True, comment="Thread; NULL: the channel itself."),
        sa.Column(
            "is_direct",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="A direct message: nobody else reads it.",
        ),
        sa.Column("user_id", sa.BigInteger(), nullable=True, comment="Who wrote first."),
        sa.Column("persona_id", sa.BigInteger(), nullable=True, comment="The persona that answered last."),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="First message.",
        ),
        sa.Column(
            "last_active_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Last reply.",
        ),
        sa.Column(
            "is_summarized",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Does the summary hold what was dropped?",
        ),
        sa.Column("summary", sa.Text(), nullable=True, comment="What was said before the window of history."),
        sa.Column(
            "window_turn_id",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="First turn that the model is still shown; moves on in blocks.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(
            ["persona_id"], ["personas.id"], name=op.f("fk_conversations_persona_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_conversations_user_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
        sa.UniqueConstraint(
            "platform",
            "platform_server_id",
            "platform_channel_id",
            "platform_thread_id",
            name="uq_conversations_place",
            postgresql_nulls_not_distinct=True,
        ),
        comment="One per place: platform, server, channel and thread.",
    )
    op.create_index(("ix_conversations_persona_id"), "conversations", ["persona_id"], unique=False)
    op.create_index(("ix_conversations_user_id"), "conversations", ["user_id"], unique=False)
    op.create_table(
        "user_platform_links",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="The user."),
        sa.Column(
            "platform",
            sa.Text(),
            nullable=False,
            comment="discord, slack, web, terminal, or what an HTTP caller named.",
        ),
        sa.Column("platform_user_id", sa.Text(), nullable=False, comment="The account's id on that platform."),
        sa.Column("platform_username", sa.Text(), nullable=True, comment="The account's name there, as last seen."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_user_platform_links_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user_platform_links")),
        sa.UniqueConstraint(
            "platform", "platform_user_id", name=op.f("uq_user_platform_links_platform_platform_user_id")
        ),
        comment="Identities: which account on which platform is which user. One user may have many.",
    )
    op.create_index(("ix_user_platform_links_user_id"), "user_platform_links", ["user_id"], unique=False)
    op.create_table(
        "turns",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("conversation_id", sa.BigInteger(), nullable=False, comment="Where."),
        sa.Column("user_id", sa.BigInteger(), nullable=True, comment="Who wrote."),
        sa.Column("persona_id", sa.BigInteger(), nullable=True, comment="Who answers."),
        sa.Column(
            "status",
            sa.Text(),
            server_default="running",
            nullable=False,
            comment="running, answered, refused, failed or cancelled.",
        ),
        sa.Column(
            "attempt",
            sa.Integer(),
            server_default="1",
            nullable=False,
            comment="Counts takeovers; a worker with an older number writes nothing.",
        ),
        sa.Column(
            "handovers",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="Takeovers that a stopping worker asked for; they are not failures.",
        ),
        sa.Column("iterations", sa.Integer(), server_default="0", nullable=False, comment="Model calls."),
        sa.Column("finished", sa.Boolean(), nullable=True, comment="Was the answer complete? NULL while running."),
        sa.Column("model", sa.Text(), nullable=True, comment="The model that gave the last answer."),
        sa.Column("error", sa.Text(), nullable=True, comment="Stable code of what went wrong, as the caller is told."),
        sa.Column("cause", sa.Text(), nullable=True, comment="What went wrong, for the operator."),
        sa.Column(
            "stop_requested",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Did the person ask to stop?",
        ),
        sa.Column(
            "live_message_id", sa.Text(), nullable=True, comment="The platform's message that is edited while it runs."
        ),
        sa.Column(
            "started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False, comment="Begin."
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True, comment="End; NULL while running."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "(status = 'running') = (finished_at IS NULL)", name=op.f("turns_finished_at_goes_with_the_end")
        ),
        sa.CheckConstraint(
            "status IN ('running', 'answered', 'refused', 'failed', 'cancelled')",
            name=op.f("turns_status_is_running_answered_refused_failed_or_cancelled"),
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_turns_conversation_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["persona_id"], ["personas.id"], name=op.f("fk_turns_persona_id"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_turns_user_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turns")),
        comment="One per answered message, or per run of messages that one person wrote in a row.",
    )
    op.create_index(("ix_turns_conversation_id_id"), "turns", ["conversation_id", "id"], unique=False)
    op.create_index(("ix_turns_persona_id"), "turns", ["persona_id"], unique=False)
    op.create_index(("ix_turns_user_id"), "turns", ["user_id"], unique=False)
    op.create_index(
        "uq_turns_one_running",
        "turns",
        ["conversation_id"],
        unique=True,
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_table(
        "budget_reservations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Whose budget."),
        sa.Column("turn_id", sa.BigInteger(), nullable=False, comment="Which turn; one call at a time."),
        sa.Column("tokens", sa.BigInteger(), nullable=False, comment="Upper estimate: prompt plus allowed output."),
        sa.Column(
            "expires_at", sa.DateTime(timezone=True), nullable=False, comment="Given back by the sweeper after this."
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("tokens >= 0", name=op.f("budget_reservations_tokens_is_not_negative")),
        sa.ForeignKeyConstraint(
            ["turn_id"], ["turns.id"], name=op.f("fk_budget_reservations_turn_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_budget_reservations_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budget_reservations")),
        comment="What model calls hold just now; users.tokens_reserved is their sum.",
    )
    op.create_index(("ix_budget_reservations_expires_at"), "budget_reservations", ["expires_at"], unique=False)
    op.create_index(("ix_budget_reservations_user_id"), "budget_reservations", ["user_id"], unique=False)
    op.create_index("uq_budget_reservations_turn", "budget_reservations", ["turn_id"], unique=True)
    op.create_table(
        "file_records",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="The owner."),
        sa.Column("conversation_id", sa.BigInteger(), nullable=True, comment="Where it was sent or made."),
        sa.Column("turn_id", sa.BigInteger(), nullable=True, comment="The turn it came with."),
        sa.Column("filename", sa.Text(), nullable=False, comment="The name that people see."),
        sa.Column("minio_key", sa.Text(), nullable=False, comment="The key in storage."),
        sa.Column("mime_type", sa.Text(), nullable=False, comment="The type, found from the content."),
        sa.Column("size_bytes", sa.BigInteger(), server_default="0", nullable=False, comment="Size in bytes."),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False, comment="pending, stored or failed."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'stored', 'failed')", name=op.f("file_records_status_is_pending_stored_or_failed")
        ),
        sa.CheckConstraint("size_bytes >= 0", name=op.f("file_records_size_bytes_is_not_negative")),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_file_records_conversation_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_file_records_turn_id"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_file_records_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_file_records")),
        sa.UniqueConstraint("minio_key", name=op.f("uq_file_records_minio_key")),
        comment="Files in storage; the bytes are in a folder or an S3 bucket under minio_key.",
    )
    op.create_index(("ix_file_records_conversation_id"), "file_records", ["conversation_id"], unique=False)
    op.create_index(("ix_file_records_turn_id"), "file_records", ["turn_id"], unique=False)
    op.create_index(("ix_file_records_user_id_id"), "file_records", ["user_id", "id"], unique=False)
    op.create_table(
        "inbox",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("door", sa.Text(), nullable=False, comment="The adapter it came by; the reply leaves by the same."),
        sa.Column("platform", sa.Text(), nullable=False, comment="The platform that the sender and place belong to."),
        sa.Column("platform_event_id", sa.Text(), nullable=False, comment="The platform's id of the event."),
        sa.Column("place_key", sa.Text(), nullable=False, comment="Canonical text of the place; the lock of its jobs."),
        sa.Column("platform_server_id", sa.Text(), nullable=True, comment="Server or workspace."),
        sa.Column("platform_channel_id", sa.Text(), nullable=False, comment="Channel."),
        sa.Column("platform_thread_id", sa.Text(), nullable=True, comment="Thread."),
        sa.Column(
            "is_direct", sa.Boolean(), server_default=sa.text("false"), nullable=False, comment="A direct message?"
        ),
        sa.Column("platform_user_id", sa.Text(), nullable=False, comment="The sender's id."),
        sa.Column("platform_username", sa.Text(), nullable=True, comment="The sender's name."),
        sa.Column(
            "platform_message_id",
            sa.Text(),
            nullable=True,
            comment="The message to reply to, where that is another id.",
        ),
        sa.Column("content", sa.Text(), nullable=False, comment="The text."),
        sa.Column(
            "attachments",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
            comment="Files that came with it.",
        ),
        sa.Column(
            "wants_stream",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Does somebody watch the answer grow?",
        ),
        sa.Column(
            "sent_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="The platform's time; the order of the messages.",
        ),
        sa.Column(
            "status",
            sa.Text(),
            server_default="waiting",
            nullable=False,
            comment="waiting, claimed, answered, failed or cancelled.",
        ),
        sa.Column("turn_id", sa.BigInteger(), nullable=True, comment="The turn that took it."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "status IN ('waiting', 'claimed', 'answered', 'failed', 'cancelled')",
            name=op.f("inbox_status_is_waiting_claimed_answered_failed_or_cancelled"),
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_inbox_turn_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_inbox")),
        sa.UniqueConstraint("platform", "platform_event_id", name=op.f("uq_inbox_platform_platform_event_id")),
        comment="Every event that came in, unique by platform and event id.",
    )
    op.create_index(
        "ix_inbox_open",
        "inbox",
        ["place_key", sa.text("(turn_id IS NULL)"), "sent_at", "id"],
        unique=False,
        postgresql_where=sa.text("status IN ('waiting', 'claimed')"),
    )
    op.create_index("ix_inbox_turn_id", "inbox", ["turn_id"], unique=False)
    op.create_table(
        "messages",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("conversation_id", sa.BigInteger(), nullable=False, comment="Where."),
        sa.Column("turn_id", sa.BigInteger(), nullable=False, comment="The turn."),
        sa.Column("seq", sa.Integer(), nullable=False, comment="Position within the turn, from 0."),
        sa.Column("user_id", sa.BigInteger(), nullable=True, comment="Whose turn it was."),
        sa.Column("speaker", sa.Text(), nullable=True, comment="The name that the person had on the platform."),
        sa.Column("role", sa.Text(), nullable=False, comment="user, assistant, tool_call or tool_result."),
        sa.Column(
            "content",
            sa.Text(),
            nullable=False,
            comment="Text; JSON arguments of a tool_call; JSON outcome of a tool_result.",
        ),
        sa.Column(
            "token_count",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="Tokens, estimated or as the model said.",
        ),
        sa.Column("model_used", sa.Text(), nullable=True, comment="The model that wrote it."),
        sa.Column("platform_message_id", sa.Text(), nullable=True, comment="The message's id on the platform."),
        sa.Column("tool_call_id", sa.Text(), nullable=True, comment="Joins a tool_call with its tool_result."),
        sa.Column("tool_name", sa.Text(), nullable=True, comment="module.tool"),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "role IN ('user', 'assistant', 'tool_call', 'tool_result')",
            name=op.f("messages_role_is_user_assistant_tool_call_or_tool_result"),
        ),
        sa.CheckConstraint(
            "role NOT LIKE 'tool%' OR (tool_call_id IS NOT NULL AND tool_name IS NOT NULL)",
            name=op.f("messages_tool_is_named"),
        ),
        sa.CheckConstraint("token_count >= 0", name=op.f("messages_token_count_is_not_negative")),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_messages_conversation_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_messages_turn_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_messages_user_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
        sa.UniqueConstraint("turn_id", "seq", name=op.f("uq_messages_turn_id_seq")),
        comment="The transcript, in the order of turn_id and seq.",
    )
    op.create_index(
        ("ix_messages_conversation_id_turn_id_seq"), "messages", ["conversation_id", "turn_id", "seq"], unique=False
    )
    op.create_index(("ix_messages_user_id"), "messages", ["user_id"], unique=False)
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "turn_id", sa.BigInteger(), nullable=True, comment="The turn it answers; NULL when none could begin."
        ),
        sa.Column("door", sa.Text(), nullable=False, comment="The adapter that sends it."),
        sa.Column("platform", sa.Text(), nullable=False, comment="Platform of the place."),
        sa.Column("platform_server_id", sa.Text(), nullable=True, comment="Server or workspace."),
        sa.Column("platform_channel_id", sa.Text(), nullable=False, comment="Channel."),
        sa.Column("platform_thread_id", sa.Text(), nullable=True, comment="Thread."),
        sa.Column(
            "is_direct", sa.Boolean(), server_default=sa.text("false"), nullable=False, comment="A direct message?"
        ),
        sa.Column("reply_to", sa.Text(), nullable=True, comment="The platform's message that it answers."),
        sa.Column(
            "live_message_id", sa.Text(), nullable=True, comment="The message to edit instead of posting a new one."
        ),
        sa.Column("content", sa.Text(), nullable=False, comment="The text."),
        sa.Column(
            "files",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
            comment="Ids of the files that go with it.",
        ),
        sa.Column(
            "choices",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
            comment="Answers to offer, as buttons where there are any.",
        ),
        sa.Column(
            "status",
            sa.Text(),
            server_default="pending",
            nullable=False,
            comment="pending, claimed, delivered or failed.",
        ),
        sa.Column(
            "claimed_until",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Lease of the sender; another may take it after this.",
        ),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False, comment="Deliveries tried."),
        sa.Column("error", sa.Text(), nullable=True, comment="Why the last delivery failed."),
        sa.Column("platform_message_id", sa.Text(), nullable=True, comment="The platform's id of what was sent."),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True, comment="When the platform took it."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "status IN ('pending', 'claimed', 'delivered', 'failed')",
            name=op.f("outbox_status_is_pending_claimed_delivered_or_failed"),
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_outbox_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
        comment="Replies, one per turn; at most one visible per message.",
    )
    op.create_index(
        "ix_outbox_open",
        "outbox",
        ["claimed_until"],
        unique=False,
        postgresql_where=sa.text("status IN ('pending', 'claimed')"),
    )
    op.create_index("uq_outbox_turn", "outbox", ["turn_id"], unique=True)
    op.create_table(
        "token_logs",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=True, comment="Who pays."),
        sa.Column("conversation_id", sa.BigInteger(), nullable=True, comment="Where."),
        sa.Column("turn_id", sa.BigInteger(), nullable=True, comment="For which turn."),
        sa.Column(
            "purpose", sa.Text(), server_default="answer", nullable=False, comment="answer, summary, embedding, …"
        ),
        sa.Column("model", sa.Text(), nullable=False, comment="litellm name of the model that answered."),
        sa.Column("input_tokens", sa.Integer(), server_default="0", nullable=False, comment="Tokens of the prompt."),
        sa.Column(
            "cached_tokens",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="Of these, read from the provider's cache.",
        ),
        sa.Column("output_tokens", sa.Integer(), server_default="0", nullable=False, comment="Tokens of the answer."),
        sa.Column(
            "cost_estimate",
            sa.Numeric(precision=14, scale=8),
            nullable=True,
            comment="US dollars; NULL: the price is unknown.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "input_tokens >= 0 AND cached_tokens >= 0 AND output_tokens >= 0",
            name=op.f("token_logs_tokens_are_not_negative"),
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_token_logs_conversation_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_token_logs_turn_id"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_token_logs_user_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token_logs")),
        comment="One row per model call, with the model that really answered.",
    )
    op.create_index(("ix_token_logs_conversation_id"), "token_logs", ["conversation_id"], unique=False)
    op.create_index(("ix_token_logs_turn_id"), "token_logs", ["turn_id"], unique=False)
    op.create_index(("ix_token_logs_user_id_created_at"), "token_logs", ["user_id", "created_at"], unique=False)
    op.create_table(
        "turn_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("turn_id", sa.BigInteger(), nullable=False, comment="The turn."),
        sa.Column("seq", sa.Integer(), nullable=False, comment="Position within the turn; deltas leave gaps."),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="user_message, turn_started, tool_call, tool_result, message, turn_complete, …",
        ),
        sa.Column(
            "payload",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="The event's content.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_turn_events_turn_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turn_events")),
        sa.UniqueConstraint("turn_id", "seq", name=op.f("uq_turn_events_turn_id_seq")),
        comment="What a turn told while it ran, in the order of seq.",
    )

    for table in BUSY:
        op.execute(EAGER.format(table=table))
    op.execute(USER_RULES)


def downgrade() -> None:
    """Drop the tables, the last made first."""
    op.drop_table("turn_events")
    op.drop_index(op.f("ix_token_logs_user_id_created_at"), table_name="token_logs")
    op.drop_index(op.f("ix_token_logs_turn_id"), table_name="token_logs")
    op.drop_index(op.f("ix_token_logs_conversation_id"), table_name="token_logs")
    op.drop_table("token_logs")
    op.drop_index("uq_outbox_turn", table_name="outbox")
    op.drop_index("ix_outbox_open", table_name="outbox", postgresql_where=sa.text("status IN ('pending', 'claimed')"))
    op.drop_table("outbox")
    op.drop_index(op.f("ix_messages_user_id"), table_name="messages")
    op.drop_index(op.f("ix_messages_conversation_id_turn_id_seq"), table_name="messages")
    op.drop_table("messages")
    op.drop_index("ix_inbox_turn_id", table_name="inbox")
    op.drop_index("ix_inbox_open", table_name="inbox", postgresql_where=sa.text("status IN ('waiting', 'claimed')"))
    op.drop_table("inbox")
    op.drop_index(op.f("ix_file_records_user_id_id"), table_name="file_records")
    op.drop_index(op.f("ix_file_records_turn_id"), table_name="file_records")
    op.drop_index(op.f("ix_file_records_conversation_id"), table_name="file_records")
    op.drop_table("file_records")
    op.drop_index("uq_budget_reservations_turn", table_name="budget_reservations")
    op.drop_index(op.f("ix_budget_reservations_user_id"), table_name="budget_reservations")
    op.drop_index(op.f("ix_budget_reservations_expires_at"), table_name="budget_reservations")
    op.drop_table("budget_reservations")
    op.drop_index("uq_turns_one_running", table_name="turns", postgresql_where=sa.text("status = 'running'"))
    op.drop_index(op.f("ix_turns_user_id"), table_name="turns")
    op.drop_index(op.f("ix_turns_persona_id"), table_name="turns")
    op.drop_index(op.f("ix_turns_conversation_id_id"), table_name="turns")
    op.drop_table("turns")
    op.drop_index(op.f("ix_user_platform_links_user_id"), table_name="user_platform_links")
    op.drop_table("user_platform_links")
    op.drop_index(op.f("ix_conversations_user_id"), table_name="conversations")
    op.drop_index(op.f("ix_conversations_persona_id"), table_name="conversations")
    op.drop_table("conversations")
    op.drop_table("users")
    op.drop_index(
        "uq_personas_one_per_place",
        table_name="personas",
        postgresql_nulls_not_distinct=True,
        postgresql_where=sa.text("platform IS NOT NULL"),
    )
    op.drop_index("uq_personas_one_default", table_name="personas", postgresql_where=sa.text("is_default"))
    op.drop_table("personas")
    op.execute("DROP FUNCTION parley_check_user")
