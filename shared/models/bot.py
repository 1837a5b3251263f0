"""The agent's own accounts on platforms: state that all processes of an account share."""

from datetime import datetime

from sqlalchemy import CheckConstraint, DateTime, ForeignKey, Index, Integer, Text, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Bot(Row, Base):
    """An account of the agent on a platform, identified by its token."""

    __tablename__ = "bots"
    __table_args__ = (
        UniqueConstraint("platform", "token_hash"),
        {"comment": "The agent's own accounts: one pace of requests over all processes, one set of commands."},
    )

    platform: Mapped[str] = mapped_column(Text, comment="The platform.")
    token_hash: Mapped[str] = mapped_column(Text, comment="The first digits of the token's SHA-256.")
    next_request_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the requests made so far have their room."
    )
    commands_hash: Mapped[str | None] = mapped_column(Text, comment="SHA-256 of the commands that were last synced.")


class Shard(Row, Base):
    """A shard of an account's servers, leased by one process at a time."""

    __tablename__ = "shards"
    __table_args__ = (
        UniqueConstraint("bot_id", "shard_id"),
        CheckConstraint("shard_id >= 0", name="shard_id_is_not_negative"),
        {"comment": "Who holds the gateway connection of a shard, until when, and what it has seen."},
    )

    bot_id: Mapped[int] = mapped_column(ForeignKey("bots.id", ondelete="CASCADE"), comment="The account.")
    shard_id: Mapped[int] = mapped_column(Integer, comment="Number of the shard, from 0.")
    holder: Mapped[str | None] = mapped_column(Text, comment="The process that holds it.")
    leased_until: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="Until when, unless it is renewed."
    )
    seen_id: Mapped[str | None] = mapped_column(
        Text, comment="The newest message that was seen; later ones are fetched after a stop."
    )


class DirectChannel(Row, Base):
    """The channel of a direct conversation with one account, on a platform that does not list them."""

    __tablename__ = "direct_channels"
    __table_args__ = (
        UniqueConstraint("bot_id", "platform_channel_id"),
        CheckConstraint("platform_channel_id ~ '^[0-9]{1,20}$'", name="channel_is_a_number"),
        Index("ix_direct_channels_recent", "bot_id", text("last_active_at DESC")),
        {"comment": "Channels of direct messages, which are read after a stop."},
    )

    bot_id: Mapped[int] = mapped_column(ForeignKey("bots.id", ondelete="CASCADE"), comment="The account.")
    platform_channel_id: Mapped[str] = mapped_column(Text, comment="The platform's id of the channel.")
    last_active_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When a message last came, to the hour."
    )
