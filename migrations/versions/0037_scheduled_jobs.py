"""Scheduled jobs of people, and the mark on the messages that they send through the inbox."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table and the column; the release before does not look at them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "scheduled_jobs",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "user_id",
            sa.BigInteger(),
            nullable=False,
            comment="Whose it is; it runs on this person's budget and rights.",
        ),
        sa.Column("conversation_id", sa.BigInteger(), nullable=False, comment="Where it speaks."),
        sa.Column("door", sa.Text(), nullable=False, comment="The adapter that sends what it says."),
        sa.Column(
            "platform_user_id",
            sa.Text(),
            nullable=False,
            comment="The person's account there; without it the job is paused.",
        ),
        sa.Column(
            "module", sa.Text(), server_default="", nullable=False, comment="The module that made it; empty: a command."
        ),
        sa.Column(
            "action",
            sa.Text(),
            server_default="notify",
            nullable=False,
            comment="notify: its text is said. resume_conversation: the text is the message that the model answers.",
        ),
        sa.Column("content", sa.Text(), nullable=False, comment="The text."),
        sa.Column("kind", sa.Text(), server_default="once", nullable=False, comment="once, every or cron."),
        sa.Column(
            "time_zone",
            sa.Text(),
            server_default="UTC",
            nullable=False,
            comment="IANA name; of a cron expression and of an interval in days.",
        ),
        sa.Column(
            "starts_at", sa.DateTime(timezone=True), nullable=True, comment="The first due time; NULL with cron."
        ),
        sa.Column("every", sa.Integer(), server_default="0", nullable=False, comment="The interval, in the unit."),
        sa.Column(
            "unit",
            sa.Text(),
            server_default="second",
            nullable=False,
            comment="second: elapsed time. day: the time of day stays when clocks change.",
        ),
        sa.Column("cron", sa.Text(), server_default="", nullable=False, comment="Minute, hour, day, month, weekday."),
        sa.Column(
            "check_tool",
            sa.Text(),
            nullable=True,
            comment="module.tool, called each time it is due until the condition holds; NULL: nothing is checked.",
        ),
        sa.Column(
            "check_arguments",
            JSONB(),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="The arguments of that call.",
        ),
        sa.Column("condition", JSONB(), nullable=True, comment="What the result has to be: {path, is, value}."),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="A check that has not come true by then ends, and the person is told.",
        ),
        sa.Column(
            "requires",
            sa.Text(),
            server_default="user",
            nullable=False,
            comment="Permission that the person needs when it is due, else it is paused.",
        ),
        sa.Column(
            "status",
            sa.Text(),
            server_default="active",
            nullable=False,
            comment="active, paused, finished or cancelled.",
        ),
        sa.Column(
            "next_due_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it is due next; what was missed is made up for once.",
        ),
        sa.Column(
            "last_due_at", sa.DateTime(timezone=True), nullable=True, comment="The due time that was served last."
        ),
        sa.Column(
            "claimed_until",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="A worker makes its check until then; NULL: none does.",
        ),
        sa.Column(
            "runs", sa.BigInteger(), server_default="0", nullable=False, comment="How often it was due and served."
        ),
        sa.Column("error", sa.Text(), nullable=True, comment="Why it was paused, or why its last check failed."),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True, comment="When it was finished or cancelled."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (status IN ('finished', 'cancelled'))",
            name=op.f("scheduled_jobs_ended_at_goes_with_the_end"),
        ),
        sa.CheckConstraint(
            "CASE kind WHEN 'cron' THEN cron <> '' WHEN 'every' THEN starts_at IS NOT NULL AND every > 0 ELSE starts_at IS NOT NULL END",
            name=op.f("scheduled_jobs_timing_goes_with_its_kind"),
        ),
        sa.CheckConstraint(
            "action IN ('notify', 'resume_conversation')",
            name=op.f("scheduled_jobs_action_is_notify_or_resume_conversation"),
        ),
        sa.CheckConstraint("kind IN ('once', 'every', 'cron')", name=op.f("scheduled_jobs_kind_is_once_every_or_cron")),
        sa.CheckConstraint(
            "requires IN ('guest', 'user', 'admin', 'owner')", name=op.f("scheduled_jobs_requires_is_a_permission")
        ),
        sa.CheckConstraint(
            "status <> 'active' OR next_due_at IS NOT NULL",
            name=op.f("scheduled_jobs_next_due_at_is_known_while_active"),
        ),
        sa.CheckConstraint(
            "status IN ('active', 'paused', 'finished', 'cancelled')",
            name=op.f("scheduled_jobs_status_is_active_paused_finished_or_cancelled"),
        ),
        sa.CheckConstraint("unit IN ('second', 'day')", name=op.f("scheduled_jobs_unit_is_second_or_day")),
        sa.CheckConstraint(
            "(check_tool IS NULL) = (condition IS NULL) AND (check_tool IS NULL OR expires_at IS NOT NULL)",
            name=op.f("scheduled_jobs_check_has_a_condition_and_an_end"),
        ),
        sa.CheckConstraint("length(content) <= 4000", name=op.f("scheduled_jobs_content_has_at_most_4000_characters")),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_scheduled_jobs_conversation_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_scheduled_jobs_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_scheduled_jobs")),
        comment="Jobs of people: what is said or asked in their conversation when it is due.",
    )
    op.create_index(op.f("ix_scheduled_jobs_conversation_id"), "scheduled_jobs", ["conversation_id"])
    op.create_index(
        "ix_scheduled_jobs_due", "scheduled_jobs", ["next_due_at"], postgresql_where=sa.text("status = 'active'")
    )
    op.create_index(op.f("ix_scheduled_jobs_user_id"), "scheduled_jobs", ["user_id"])
    op.add_column(
        "inbox",
        sa.Column("due_job", JSONB(), nullable=True, comment="The scheduled job that it is: {job_id, notice, check}."),
    )


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.drop_column("inbox", "due_job")
    op.drop_table("scheduled_jobs")
