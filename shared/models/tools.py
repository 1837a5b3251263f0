"""What admins connect: agents and skills."""

from datetime import datetime
from typing import Any

from sqlalchemy import FetchedValue
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Agent(Row, Base):
    """An agent: its purpose, who may use it, and the persona or URL behind it."""

    __tablename__ = "agents"

    name: Mapped[str]
    description: Mapped[str]
    persona_id: Mapped[int | None]
    url: Mapped[str | None]
    headers: Mapped[dict[str, Any]]
    required_permission: Mapped[str]
    env: Mapped[dict[str, Any]]
    peers: Mapped[list[Any] | None]
    owns_persona: Mapped[bool]
    is_enabled: Mapped[bool]
    card: Mapped[dict[str, Any] | None]
    card_fetched_at: Mapped[datetime | None]
    last_error: Mapped[str | None]


class Skill(Row, Base):
    """A skill in the Agent Skills format; a row is used instead of a folder of the same name."""

    __tablename__ = "skills"

    name: Mapped[str]
    description: Mapped[str]
    body: Mapped[str]
    files: Mapped[dict[str, Any]] = mapped_column(server_default=FetchedValue())
    is_enabled: Mapped[bool] = mapped_column(server_default=FetchedValue())
