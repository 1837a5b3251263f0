"""Rules for when the agent answers in a channel."""

from sqlalchemy import CheckConstraint, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class ChannelMode(Row, Base):
    """The rule of a channel or of a whole server; that of the channel takes precedence."""

    __tablename__ = "channel_modes"
    __table_args__ = (
        UniqueConstraint(
            "platform",
            "platform_server_id",
            "platform_channel_id",
            name="uq_channel_modes_place",
            postgresql_nulls_not_distinct=True,
        ),
        CheckConstraint("mode IN ('mention', 'always', 'off')", name="mode_is_mention_always_or_off"),
        {"comment": "Where the agent answers, and to what. A change counts from the next message on."},
    )

    platform: Mapped[str] = mapped_column(Text, server_default="discord", comment="The platform.")
    platform_server_id: Mapped[str | None] = mapped_column(Text, comment="Server; NULL: whichever has the channel.")
    platform_channel_id: Mapped[str | None] = mapped_column(
        Text, comment="Channel; its threads do as it does. NULL: all channels of the server."
    )
    mode: Mapped[str] = mapped_column(
        Text, server_default="mention", comment="mention: when it is called; always: to every message; off: never."
    )
    thread_per_question: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="Answer each question in a thread of its own?"
    )
    answers_others: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="Answer also what people say to each other where the agent takes part?"
    )
