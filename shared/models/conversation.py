"""Conversations: the messages of one channel, thread or direct message."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Conversation(Row, Base):
    """The conversation of one place."""

    __tablename__ = "conversations"
    __table_args__ = (
        UniqueConstraint(
            "platform",
            "platform_server_id",
            "platform_channel_id",
            "platform_thread_id",
            name="uq_conversations_place",
            postgresql_nulls_not_distinct=True,
        ),
        Index(None, "user_id"),
        Index(None, "persona_id"),
        Index("ix_conversations_summary_due", "summary_due_at", postgresql_where=text("summary_due_at IS NOT NULL")),
        CheckConstraint("summary_tokens_held >= 0", name="summary_tokens_held_is_not_negative"),
        {"comment": "One per place: platform, server, channel and thread."},
    )

    platform: Mapped[str] = mapped_column(Text, comment="discord, slack, web, terminal, or what an HTTP caller named.")
    platform_server_id: Mapped[str | None] = mapped_column(
        Text, comment="Server or workspace; NULL in direct messages."
    )
    platform_channel_id: Mapped[str] = mapped_column(Text, comment="Channel.")
    platform_thread_id: Mapped[str | None] = mapped_column(Text, comment="Thread; NULL: the channel itself.")
    is_direct: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="A direct message: nobody else reads it."
    )
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"), comment="Who wrote first.")
    persona_id: Mapped[int | None] = mapped_column(
        ForeignKey("personas.id", ondelete="SET NULL"), comment="The persona that answered last."
    )
    started_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="First message."
    )
    last_active_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="Last reply."
    )
    is_summarized: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="Does the summary hold all that was said?"
    )
    is_memory_paused: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="Is nothing of this conversation remembered, except what is asked for?",
    )
    summary: Mapped[str | None] = mapped_column(Text, comment="What was said up to summarized_turn_id, in short.")
    window_turn_id: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="First turn that the model is still shown; moves on in blocks."
    )
    summarized_turn_id: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="The summary holds what was said up to this turn."
    )
    summary_due_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True),
        server_default=text("now() + interval '30 minutes'"),
        comment="When a worker looks whether to summarise; NULL: nothing was said since the summary.",
    )
    summary_is_urgent: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="Summarise without waiting for a pause: the history is too long, or a summary was withdrawn.",
    )
    summary_claimed_until: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="A worker writes the summary until then; NULL: none does."
    )
    summary_tokens_held: Mapped[int] = mapped_column(
        BigInteger,
        server_default="0",
        comment="Tokens of the person's or the server's budget that the summary being written holds.",
    )
    summary_cost_held: Mapped[Decimal] = mapped_column(
        Numeric(14, 8), server_default="0", comment="US dollars that it holds of the rows of budgets."
    )
    summary_budget_ids: Mapped[list[int] | None] = mapped_column(
        ARRAY(BigInteger), comment="The rows of budgets that hold what it holds; NULL: none."
    )
    summary_failures: Mapped[int] = mapped_column(
        Integer,
        server_default="0",
        comment="Attempts in a row that gave no summary; the next one waits the longer.",
    )
    summary_error: Mapped[str | None] = mapped_column(
        Text, comment="Why the last attempt gave no summary; NULL: it gave one."
    )
    facts_turn_id: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="Facts were drawn from what was said up to this turn."
    )
    facts_failures: Mapped[int] = mapped_column(
        Integer,
        server_default="0",
        comment="Attempts in a row that gave no facts; the next one waits the longer.",
    )
    facts_retry_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When facts may be drawn again after a failure; NULL: at any time."
    )


class Summary(Row, Base):
    """A summary of a conversation as it was written."""

    __tablename__ = "summaries"
    __table_args__ = (
        UniqueConstraint("conversation_id", "last_turn_id"),
        {"comment": "Each summary of a conversation as it was written; the newest is conversations.summary."},
    )

    conversation_id: Mapped[int] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE"), comment="The conversation."
    )
    last_turn_id: Mapped[int] = mapped_column(BigInteger, comment="It holds what was said up to this turn.")
    content: Mapped[str] = mapped_column(Text, comment="The summary; empty: the conversation began afresh here.")
    model: Mapped[str | None] = mapped_column(Text, comment="The model that wrote it; NULL: none, it was extracted.")
