"""The base classes of all tables: types, id and creation time."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Double, FetchedValue, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """The declarative base of Parley's tables and of modules'."""

    type_annotation_map = {  # noqa: RUF012  # SQLAlchemy reads it so
        int: BigInteger,
        float: Double,
        str: Text,
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB(none_as_null=True),
        list[Any]: JSONB(none_as_null=True),
    }


class Row:
    """The columns `id` and `created_at`, which the database fills in."""

    id: Mapped[int] = mapped_column(primary_key=True, server_default=FetchedValue(), sort_order=-2)
    created_at: Mapped[datetime] = mapped_column(server_default=FetchedValue(), sort_order=90)
