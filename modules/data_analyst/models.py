"""Sources of data, which admins name."""

from typing import Any

from sqlalchemy.orm import Mapped

from shared.models.base import Base, Row


class Source(Row, Base):
    """A table, a view or a file that people may ask about."""

    __tablename__ = "data_sources"

    name: Mapped[str]
    description: Mapped[str]
    kind: Mapped[str]
    url: Mapped[str | None]
    password: Mapped[str | None]
    relation: Mapped[str | None]
    path: Mapped[str | None]
    allowed_roles: Mapped[list[Any]]
    allow_sql: Mapped[bool]
    is_enabled: Mapped[bool]
