"""Servers, and the personas that answer there."""

from datetime import datetime
from typing import Any

from sqlalchemy import FetchedValue, Integer, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Server(Row, Base):
    """A server or workspace."""

    __tablename__ = "servers"

    platform: Mapped[str]
    platform_server_id: Mapped[str]
    name: Mapped[str | None]
    token_budget_monthly: Mapped[int | None]
    tokens_used_this_month: Mapped[int]
    tokens_reserved: Mapped[int]
    budget_reset_at: Mapped[datetime]
    budget_percent_told: Mapped[int] = mapped_column(SmallInteger)
    welcomed_at: Mapped[datetime | None]
    files_kept_days: Mapped[int | None] = mapped_column(Integer)
    paused_at: Mapped[datetime | None]


class Persona(Row, Base):
    """The instructions, model and modules of the agent in a place."""

    __tablename__ = "personas"

    name: Mapped[str]
    system_prompt: Mapped[str]
    platform: Mapped[str | None]
    platform_server_id: Mapped[str | None]
    platform_channel_id: Mapped[str | None]
    allowed_modules: Mapped[list[Any] | None]
    skills: Mapped[list[Any] | None]
    default_model: Mapped[str | None]
    max_tokens_per_request: Mapped[int | None] = mapped_column(Integer)
    max_temperature: Mapped[float | None]
    max_iterations: Mapped[int | None] = mapped_column(Integer)
    loop_mode: Mapped[str | None]
    allow_mentions: Mapped[bool] = mapped_column(server_default=FetchedValue())
    is_default: Mapped[bool] = mapped_column(server_default=FetchedValue())
    suggestions: Mapped[list[Any] | None]
    open_to: Mapped[str | None]
    picture: Mapped[str | None]
