"""The base classes of all tables: naming of constraints, id and creation time."""

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, Identity, MetaData, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# The largest id of a row (bigint); Postgres rejects a larger parameter.
MAX_ID = 2**63 - 1
# Constraint names are readable, because admins see them when a value is refused.
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The declarative base of Parley's tables; a platform with tables of its own has another one."""

    metadata = MetaData(naming_convention=NAMES)


class Row:
    """The columns `id` and `created_at`, which the database fills in."""

    id: Mapped[int] = mapped_column(
        BigInteger, Identity(), primary_key=True, comment="The row's own number.", sort_order=-2
    )
    created_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the row was made.", sort_order=90
    )


def to_id(text: str) -> int | None:
    """Return the id that somebody typed; None for what can be no row's id, however long it is."""
    if not (text.isascii() and text.isdecimal()) or len(text.lstrip("0")) > len(str(MAX_ID)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= MAX_ID else None
