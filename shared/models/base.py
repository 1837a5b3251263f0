"""The base classes of all tables: types, id and creation time."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Double, FetchedValue, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# The largest id of a row (bigint); Postgres rejects a larger parameter.
MAX_ID = 2**63 - 1


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


def to_id(text: str) -> int | None:
    """Return the id that somebody typed; None for what can be no row's id, however long it is."""
    if not (text.isascii() and text.isdecimal()) or len(text.lstrip("0")) > len(str(MAX_ID)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= MAX_ID else None
