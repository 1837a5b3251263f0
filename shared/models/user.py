"""Users and their identities on platforms."""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Index,
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class User(Row, Base):
    """A person, with a permission and a budget."""

    __tablename__ = "users"
    __table_args__ = (
        CheckConstraint(
            "permission_level IN ('guest', 'user', 'admin', 'owner')",
            name="permission_level_is_guest_user_admin_or_owner",
        ),
        CheckConstraint("token_budget_monthly >= 0", name="token_budget_monthly_is_not_negative"),
        CheckConstraint("tokens_used_this_month >= 0", name="tokens_used_this_month_is_not_negative"),
        CheckConstraint("tokens_reserved >= 0", name="tokens_reserved_is_not_negative"),
        CheckConstraint(
            "week_start IN ('monday', 'saturday', 'sunday')", name="week_start_is_monday_saturday_or_sunday"
        ),
        CheckConstraint(
            "permission_after IN ('guest', 'user', 'admin', 'owner')",
            name="permission_after_is_guest_user_admin_or_owner",
        ),
        CheckConstraint(
            "(permission_until IS NULL) = (permission_after IS NULL)", name="a_permission_with_an_end_has_one_after_it"
        ),
        Index("ix_users_permission_until", "permission_until", postgresql_where=text("permission_until IS NOT NULL")),
        {
            "comment": "People."
            " Change permission_level and token_budget_monthly here; it counts from the next message on."
        },
    )

    display_name: Mapped[str | None] = mapped_column(
        Text, comment="How the person is called; NULL: the name on the platform."
    )
    permission_level: Mapped[str] = mapped_column(
        Text,
        server_default="guest",
        comment="guest, user, admin or owner. Raising it to admin or owner lifts the budget.",
    )
    permission_until: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="End of permission_level, then permission_after; NULL: none."
    )
    permission_after: Mapped[str | None] = mapped_column(
        Text, comment="The permission after permission_until: guest, user, admin or owner."
    )
    paused_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="Since when this person is not answered; NULL: they are."
    )
    token_budget_monthly: Mapped[int | None] = mapped_column(
        BigInteger, server_default="50000", comment="Tokens allowed in a period of 30 days; NULL: unlimited."
    )
    tokens_used_this_month: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="Tokens spent since the period began."
    )
    tokens_reserved: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="Tokens held by model calls that are running now."
    )
    budget_from_roles: Mapped[int | None] = mapped_column(
        BigInteger, comment="What the person's roles give instead, when it is more; the program keeps it."
    )
    budget_reset_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True),
        server_default=text("now() + interval '30 days'"),
        comment="END of the period: when it has passed, the used tokens go back to 0 and it moves on by 30 days.",
    )
    budget_percent_told: Mapped[int] = mapped_column(
        SmallInteger, server_default="0", comment="The highest of 50, 80 and 100 percent that was told in this period."
    )
    time_zone: Mapped[str] = mapped_column(Text, server_default="UTC", comment="IANA name of the person's time zone.")
    is_memory_paused: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="Is nothing of this person remembered, except what is asked for?",
    )
    has_memories: Mapped[bool] = mapped_column(
        server_default=text("false"),
        comment="Was anything ever remembered? Set by the database; saves a search for nothing.",
    )
    week_start: Mapped[str] = mapped_column(
        Text, server_default="monday", comment="First day of the week: monday, saturday or sunday."
    )


class UserPlatformLink(Row, Base):
    """An identity: a user's account on one platform."""

    __tablename__ = "user_platform_links"
    __table_args__ = (
        UniqueConstraint("platform", "platform_user_id"),
        Index(None, "user_id"),
        {"comment": "Identities: which account on which platform is which user. One user may have many."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="The user.")
    platform: Mapped[str] = mapped_column(Text, comment="discord, slack, web, terminal, or what an HTTP caller named.")
    platform_user_id: Mapped[str] = mapped_column(Text, comment="The account's id on that platform.")
    platform_username: Mapped[str | None] = mapped_column(Text, comment="The account's name there, as last seen.")
