"""Confirmations: questions that must be answered with yes before a tool call runs."""

from datetime import datetime

from sqlalchemy import CheckConstraint, DateTime, ForeignKey, Index, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Confirmation(Row, Base):
    """A question about one tool call with its arguments, to one user in one place."""

    __tablename__ = "confirmations"
    __table_args__ = (
        UniqueConstraint("turn_id"),
        CheckConstraint(
            "status IN ('pending', 'approved', 'denied', 'expired', 'used')",
            name="status_is_pending_approved_denied_expired_or_used",
        ),
        CheckConstraint("reason IN ('tool', 'taint')", name="reason_is_tool_or_taint"),
        CheckConstraint(
            "approver_level IN ('guest', 'user', 'admin', 'owner')",
            name="approver_level_is_guest_user_admin_or_owner",
        ),
        CheckConstraint(
            "arguments_hash = encode(sha256(convert_to(arguments, 'UTF8')), 'hex')",
            name="arguments_are_as_they_were_asked",
        ),
        CheckConstraint(
            "(answered_at IS NOT NULL) = (status IN ('approved', 'denied', 'used'))",
            name="answered_at_goes_with_the_answer",
        ),
        CheckConstraint("(used_at IS NOT NULL) = (status = 'used')", name="used_at_goes_with_the_use"),
        CheckConstraint("expires_at > created_at", name="expires_at_is_after_the_question"),
        Index(
            "uq_confirmations_one_pending",
            "conversation_id",
            "user_id",
            unique=True,
            postgresql_where=text("status = 'pending'"),
        ),
        Index(None, "conversation_id", "user_id", "id"),
        Index(None, "user_id"),
        Index(None, "answered_turn_id"),
        Index(None, "expires_at"),
        Index(None, "approved_by"),
        {"comment": "What people were asked before it was done; a yes counts once, for exactly this call."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Who is asked.")
    conversation_id: Mapped[int] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE"), comment="The place where alone it may be answered."
    )
    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"), comment="The turn that asked.")
    call_id: Mapped[str] = mapped_column(Text, comment="The tool call that was held back.")
    tool: Mapped[str] = mapped_column(Text, comment="module.tool")
    agent: Mapped[str | None] = mapped_column(
        Text, comment="The agent whose call it is; NULL: that of the persona who answers in this place."
    )
    arguments: Mapped[str] = mapped_column(Text, comment="JSON; a yes runs the tool with exactly these.")
    arguments_hash: Mapped[str] = mapped_column(Text, comment="SHA-256 of the arguments, in hexadecimal digits.")
    question: Mapped[str] = mapped_column(Text, comment="What the person was asked.")
    reason: Mapped[str] = mapped_column(
        Text, comment="tool: the tool asks by itself; taint: the turn had read untrusted and private text."
    )
    status: Mapped[str] = mapped_column(
        Text,
        server_default="pending",
        comment="pending, approved, denied, expired (or replaced), used (the call was begun).",
    )
    expires_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True),
        server_default=text("now() + '00:10:00'::interval"),
        comment="A later answer changes nothing.",
    )
    answered_turn_id: Mapped[int | None] = mapped_column(
        ForeignKey("turns.id", ondelete="SET NULL"), comment="The turn of the answer."
    )
    answered_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True), comment="When it was answered.")
    approver_level: Mapped[str | None] = mapped_column(
        Text,
        comment="Permission that a yes needs, the person's own or an approver's; NULL: the person's yes is enough.",
    )
    approved_by: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="SET NULL"), comment="Who said yes in the person's place."
    )
    used_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True), comment="When the call was begun.")
