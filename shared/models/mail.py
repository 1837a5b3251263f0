"""The inbox, stored before an event is acknowledged, and the outbox, stored before a reply is sent."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    Text,
    UniqueConstraint,
    func,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class InboxMessage(Row, Base):
    """An incoming event; each is stored once."""

    __tablename__ = "inbox"
    __table_args__ = (
        UniqueConstraint("platform", "platform_event_id"),
        CheckConstraint(
            "status IN ('waiting', 'claimed', 'answered', 'failed', 'cancelled')",
            name="status_is_waiting_claimed_answered_failed_or_cancelled",
        ),
        Index(
            "ix_inbox_open",
            "place_key",
            literal_column("(turn_id IS NULL)"),
            "sent_at",
            "id",
            postgresql_where=text("status IN ('waiting', 'claimed')"),
        ),
        Index(
            "ix_inbox_open_by_person",
            "platform",
            "platform_user_id",
            "id",
            postgresql_where=text("status IN ('waiting', 'claimed')"),
        ),
        Index("ix_inbox_turn_id", "turn_id"),
        Index("ix_inbox_again_of", "again_of", postgresql_where=text("again_of IS NOT NULL")),
        Index(
            "ix_inbox_quoted",
            literal_column("(surroundings -> 'earlier')").label("earlier"),
            postgresql_using="gin",
            postgresql_ops={"earlier": "jsonb_path_ops"},
            postgresql_where=text("(surroundings -> 'earlier') IS NOT NULL"),
        ),
        {"comment": "Every event that came in, unique by platform and event id."},
    )

    door: Mapped[str] = mapped_column(Text, comment="The adapter it came by; the reply leaves by the same.")
    platform: Mapped[str] = mapped_column(Text, comment="The platform that the sender and place belong to.")
    platform_event_id: Mapped[str] = mapped_column(Text, comment="The platform's id of the event.")
    place_key: Mapped[str] = mapped_column(Text, comment="Canonical text of the place; the lock of its jobs.")
    platform_server_id: Mapped[str | None] = mapped_column(Text, comment="Server or workspace.")
    platform_channel_id: Mapped[str] = mapped_column(Text, comment="Channel.")
    platform_thread_id: Mapped[str | None] = mapped_column(Text, comment="Thread.")
    is_direct: Mapped[bool] = mapped_column(server_default=text("false"), comment="A direct message?")
    platform_user_id: Mapped[str] = mapped_column(Text, comment="The sender's id.")
    platform_username: Mapped[str | None] = mapped_column(Text, comment="The sender's name.")
    replied_to: Mapped[str | None] = mapped_column(
        Text, comment="The platform_event_id of the message that it replies to, of which the model is shown the text."
    )
    platform_message_id: Mapped[str | None] = mapped_column(
        Text, comment="The message to reply to, where that is another id."
    )
    content: Mapped[str] = mapped_column(Text, comment="The text.")
    attachments: Mapped[list[Any]] = mapped_column(
        JSONB, server_default=text("'[]'"), comment="Files that came with it."
    )
    wants_stream: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="Does somebody watch the answer grow?"
    )
    surroundings: Mapped[dict[str, Any]] = mapped_column(
        JSONB,
        server_default=text("'{}'"),
        comment="What the platform told beside it: roles of the sender, topic, thread title, what was said before.",
    )
    sent_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="The platform's time; the order of the messages."
    )
    edited_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When its text was changed after its turn had begun."
    )
    status: Mapped[str] = mapped_column(
        Text, server_default="waiting", comment="waiting, claimed, answered, failed or cancelled."
    )
    decision: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB(none_as_null=True), comment="Its answer to one confirmation: {confirmation_id, approved, approved_by}."
    )
    due_job: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB(none_as_null=True), comment="The scheduled job that it is: {job_id, notice, check}."
    )
    turn_id: Mapped[int | None] = mapped_column(
        ForeignKey("turns.id", ondelete="SET NULL"), comment="The turn that took it."
    )
    credentials: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB(none_as_null=True),
        comment="What a program gave for this message: {owner, encrypted: {name: …}}; removed once the message is"
        " answered.",
    )
    request: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB(none_as_null=True),
        comment="What a program's request brings beside its message: instructions, history, options; removed once the"
        " message is answered.",
    )
    again_of: Mapped[int | None] = mapped_column(
        ForeignKey("turns.id", ondelete="SET NULL"),
        comment="The turn whose question this click asks again; deleted with it.",
    )


class OutboxReply(Row, Base):
    """A reply, inserted in the transaction that finishes its turn."""

    __tablename__ = "outbox"
    __table_args__ = (
        CheckConstraint(
            "status IN ('pending', 'claimed', 'delivered', 'failed')",
            name="status_is_pending_claimed_delivered_or_failed",
        ),
        Index("uq_outbox_turn", "turn_id", unique=True),
        Index("ix_outbox_open", "claimed_until", postgresql_where=text("status IN ('pending', 'claimed')")),
        Index("ix_outbox_failed", "id", postgresql_where=text("status = 'failed'")),
        Index("ix_outbox_by_place", "place_key", "id", postgresql_where=text("status IN ('pending', 'claimed')")),
        {"comment": "Replies, one per turn; at most one visible per message."},
    )

    turn_id: Mapped[int | None] = mapped_column(
        ForeignKey("turns.id", ondelete="CASCADE"), comment="The turn it answers; NULL when none could begin."
    )
    door: Mapped[str] = mapped_column(Text, comment="The adapter that sends it.")
    platform: Mapped[str] = mapped_column(Text, comment="Platform of the place.")
    platform_server_id: Mapped[str | None] = mapped_column(Text, comment="Server or workspace.")
    platform_channel_id: Mapped[str] = mapped_column(Text, comment="Channel.")
    platform_thread_id: Mapped[str | None] = mapped_column(Text, comment="Thread.")
    is_direct: Mapped[bool] = mapped_column(server_default=text("false"), comment="A direct message?")
    reply_to: Mapped[str | None] = mapped_column(Text, comment="The platform's message that it answers.")
    live_message_id: Mapped[str | None] = mapped_column(
        Text, comment="The message to edit instead of posting a new one."
    )
    content: Mapped[str] = mapped_column(Text, comment="The text.")
    files: Mapped[list[Any]] = mapped_column(
        JSONB, server_default=text("'[]'"), comment="Ids of the files that go with it."
    )
    choices: Mapped[list[Any]] = mapped_column(
        JSONB, server_default=text("'[]'"), comment="Answers to offer, as buttons where there are any."
    )
    status: Mapped[str] = mapped_column(
        Text, server_default="pending", comment="pending, claimed, delivered or failed."
    )
    claimed_until: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="Lease of the sender; another may take it after this."
    )
    attempts: Mapped[int] = mapped_column(Integer, server_default="0", comment="Deliveries tried.")
    error: Mapped[str | None] = mapped_column(Text, comment="Why the last delivery failed.")
    platform_message_id: Mapped[str | None] = mapped_column(Text, comment="The platform's id of what was sent.")
    delivered_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True), comment="When the platform took it.")
    place_key: Mapped[str] = mapped_column(
        Text, server_default="", comment="Canonical text of the place; its replies are sent in the order of their ids."
    )
    lost_seconds: Mapped[float] = mapped_column(
        Double, server_default=text("0"), comment="For how long all its deliveries have ended with their sender."
    )
    tried_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When its last delivery began or failed."
    )


class DeliveryOutage(Row, Base):
    """A platform that did not take the last reply."""

    __tablename__ = "delivery_outages"
    __table_args__ = (
        UniqueConstraint("door", "scope"),
        {"comment": "Platforms that did not take the last reply; the row goes with the next reply that they take."},
    )

    door: Mapped[str] = mapped_column(Text, comment="The adapter whose platform does not answer.")
    scope: Mapped[str] = mapped_column(Text, comment="The server or workspace that is away; empty for the platform.")
    place_key: Mapped[str] = mapped_column(Text, comment="The place where it was noticed first.")
    is_down: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="Did it fail in a second place, too? Then one reply at a time asks whether it is back.",
    )
    failures: Mapped[int] = mapped_column(Integer, server_default=text("1"), comment="Failures in a row.")
    next_probe_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), comment="When the next reply may ask.")
    error: Mapped[str] = mapped_column(Text, comment="How the last delivery failed.")
