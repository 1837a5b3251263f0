"""Servers: their shared budget, and when the agent introduced itself."""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Integer, SmallInteger, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Server(Row, Base):
    """A server or workspace."""

    __tablename__ = "servers"
    __table_args__ = (
        UniqueConstraint("platform", "platform_server_id"),
        CheckConstraint("token_budget_monthly >= 0", name="token_budget_monthly_is_not_negative"),
        CheckConstraint("tokens_used_this_month >= 0", name="tokens_used_this_month_is_not_negative"),
        CheckConstraint("tokens_reserved >= 0", name="tokens_reserved_is_not_negative"),
        CheckConstraint("files_kept_days BETWEEN 1 AND 36500", name="files_kept_days_is_1_to_36500"),
        {"comment": "Servers. token_budget_monthly limits what all people together may spend there."},
    )

    platform: Mapped[str] = mapped_column(Text, server_default="discord", comment="The platform.")
    platform_server_id: Mapped[str] = mapped_column(Text, comment="The server.")
    name: Mapped[str | None] = mapped_column(Text, comment="Its name, as last seen.")
    token_budget_monthly: Mapped[int | None] = mapped_column(
        BigInteger, comment="Tokens that all people together may use in a period of 30 days; NULL: unlimited."
    )
    tokens_used_this_month: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="Tokens spent since the period began."
    )
    tokens_reserved: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="Tokens held by model calls that are running now."
    )
    budget_reset_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=text("now() + interval '30 days'"), comment="END of the period."
    )
    budget_percent_told: Mapped[int] = mapped_column(
        SmallInteger, server_default="0", comment="The highest of 50, 80 and 100 percent that was told in this period."
    )
    welcomed_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When the agent introduced itself; once."
    )
    files_kept_days: Mapped[int | None] = mapped_column(
        Integer, comment="Days after which files that were sent or made there are deleted; NULL: they are kept."
    )
    paused_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="Since when nobody is answered there; NULL: they are."
    )
