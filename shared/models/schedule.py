"""Scheduled jobs: what is said or asked in a conversation when its time has come."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, DateTime, ForeignKey, Index, Integer, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class ScheduledJob(Row, Base):
    """A job of one person in one conversation."""

    __tablename__ = "scheduled_jobs"
    __table_args__ = (
        CheckConstraint("action IN ('notify', 'resume_conversation')", name="action_is_notify_or_resume_conversation"),
        CheckConstraint("kind IN ('once', 'every', 'cron')", name="kind_is_once_every_or_cron"),
        CheckConstraint("unit IN ('second', 'day')", name="unit_is_second_or_day"),
        CheckConstraint("author IN ('person', 'stranger')", name="author_is_person_or_stranger"),
        CheckConstraint(
            "CASE kind WHEN 'cron' THEN cron <> '' WHEN 'every' THEN starts_at IS NOT NULL AND every > 0"
            " ELSE starts_at IS NOT NULL END",
            name="timing_goes_with_its_kind",
        ),
        CheckConstraint(
            "status IN ('active', 'paused', 'finished', 'cancelled')",
            name="status_is_active_paused_finished_or_cancelled",
        ),
        CheckConstraint("status <> 'active' OR next_due_at IS NOT NULL", name="next_due_at_is_known_while_active"),
        CheckConstraint(
            "(ended_at IS NOT NULL) = (status IN ('finished', 'cancelled'))", name="ended_at_goes_with_the_end"
        ),
        CheckConstraint("requires IN ('guest', 'user', 'admin', 'owner')", name="requires_is_a_permission"),
        CheckConstraint("length(content) <= 4000", name="content_has_at_most_4000_characters"),
        CheckConstraint(
            "(check_tool IS NULL) = (condition IS NULL) AND (check_tool IS NULL OR expires_at IS NOT NULL)",
            name="check_has_a_condition_and_an_end",
        ),
        Index("ix_scheduled_jobs_due", "next_due_at", postgresql_where=text("status = 'active'")),
        Index(None, "user_id"),
        Index(None, "conversation_id"),
        {"comment": "Jobs of people: what is said or asked in their conversation when it is due."},
    )

    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), comment="Whose it is; it runs on this person's budget and rights."
    )
    conversation_id: Mapped[int] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE"), comment="Where it speaks."
    )
    door: Mapped[str] = mapped_column(Text, comment="The adapter that sends what it says.")
    author: Mapped[str] = mapped_column(
        Text,
        server_default="person",
        comment="Who may have written what it says: person, whose it is; stranger, whose text the model had read.",
    )
    platform_user_id: Mapped[str] = mapped_column(
        Text, comment="The person's account there; without it the job is paused."
    )
    module: Mapped[str] = mapped_column(Text, server_default="", comment="The module that made it; empty: a command.")
    action: Mapped[str] = mapped_column(
        Text,
        server_default="notify",
        comment="notify: its text is said. resume_conversation: the text is the message that the model answers.",
    )
    content: Mapped[str] = mapped_column(Text, comment="The text.")
    kind: Mapped[str] = mapped_column(Text, server_default="once", comment="once, every or cron.")
    time_zone: Mapped[str] = mapped_column(
        Text, server_default="UTC", comment="IANA name; of a cron expression and of an interval in days."
    )
    starts_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="The first due time; NULL with cron."
    )
    every: Mapped[int] = mapped_column(Integer, server_default="0", comment="The interval, in the unit.")
    unit: Mapped[str] = mapped_column(
        Text, server_default="second", comment="second: elapsed time. day: the time of day stays when clocks change."
    )
    cron: Mapped[str] = mapped_column(Text, server_default="", comment="Minute, hour, day, month, weekday.")
    check_tool: Mapped[str | None] = mapped_column(
        Text, comment="module.tool, called each time it is due until the condition holds; NULL: nothing is checked."
    )
    check_arguments: Mapped[dict[str, Any]] = mapped_column(
        JSONB, server_default=text("'{}'"), comment="The arguments of that call."
    )
    condition: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB(none_as_null=True), comment="What the result has to be: {path, is, value}."
    )
    expires_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="A check that has not come true by then ends, and the person is told."
    )
    requires: Mapped[str] = mapped_column(
        Text, server_default="user", comment="Permission that the person needs when it is due, else it is paused."
    )
    status: Mapped[str] = mapped_column(Text, server_default="active", comment="active, paused, finished or cancelled.")
    next_due_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When it is due next; what was missed is made up for once."
    )
    last_due_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="The due time that was served last."
    )
    claimed_until: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="A worker makes its check until then; NULL: none does."
    )
    runs: Mapped[int] = mapped_column(BigInteger, server_default="0", comment="How often it was due and served.")
    error: Mapped[str | None] = mapped_column(Text, comment="Why it was paused, or why its last check failed.")
    ended_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When it was finished or cancelled."
    )
