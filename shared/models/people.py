"""People, their accounts, and their roles on servers."""

from datetime import datetime

from sqlalchemy import FetchedValue, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class User(Row, Base):
    """A person, with a permission and a budget."""

    __tablename__ = "users"

    display_name: Mapped[str | None]
    permission_level: Mapped[str] = mapped_column(server_default=FetchedValue())
    permission_until: Mapped[datetime | None]
    permission_after: Mapped[str | None]
    paused_at: Mapped[datetime | None]
    token_budget_monthly: Mapped[int | None] = mapped_column(server_default=FetchedValue())
    tokens_used_this_month: Mapped[int] = mapped_column(server_default=FetchedValue())
    tokens_reserved: Mapped[int] = mapped_column(server_default=FetchedValue())
    budget_from_roles: Mapped[int | None]
    budget_reset_at: Mapped[datetime] = mapped_column(server_default=FetchedValue())
    budget_percent_told: Mapped[int] = mapped_column(SmallInteger, server_default=FetchedValue())
    time_zone: Mapped[str] = mapped_column(server_default=FetchedValue())
    is_memory_paused: Mapped[bool] = mapped_column(server_default=FetchedValue())
    has_memories: Mapped[bool] = mapped_column(server_default=FetchedValue())
    week_start: Mapped[str] = mapped_column(server_default=FetchedValue())


class UserPlatformLink(Row, Base):
    """An identity: a user's account on one platform."""

    __tablename__ = "user_platform_links"

    user_id: Mapped[int]
    platform: Mapped[str]
    platform_user_id: Mapped[str]
    platform_username: Mapped[str | None]
