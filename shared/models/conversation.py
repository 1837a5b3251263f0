"""Conversations: the messages of one channel, thread or direct message."""

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, ForeignKey, Index, Text, UniqueConstraint, func, text
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
        server_default=text("false"), comment="Does the summary hold what was dropped?"
    )
    summary: Mapped[str | None] = mapped_column(Text, comment="What was said before the window of history.")
    window_turn_id: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="First turn that the model is still shown; moves on in blocks."
    )
