"""What all tables share: plain names, an id, a time stamp by the database, named constraints."""

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, Identity, MetaData, func
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """The parent of every table. Names of constraints are what an admin reads when a wrong value is refused."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Row:
    """An id and the moment of creation, both by default in the database."""

    id: Mapped[int] = mapped_column(
        BigInteger, Identity(), primary_key=True, comment="The row's own number.", sort_order=-2
    )
    created_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the row was made.", sort_order=90
    )
