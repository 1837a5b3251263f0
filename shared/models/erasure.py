"""Erasures of people."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Erasure(Row, Base):
    """A person who was erased, or is being erased."""

    __tablename__ = "erasures"
    __table_args__ = (
        UniqueConstraint("user_id"),
        Index("ix_erasures_open", "id", postgresql_where=text("finished_at IS NULL")),
        {"comment": "People who were erased, without their names: what the receipts are made of."},
    )

    user_id: Mapped[int] = mapped_column(BigInteger, comment="The number that the erased person had.")
    erased: Mapped[dict[str, Any]] = mapped_column(
        JSONB, server_default=text("'{}'"), comment="How many rows and files of each kind were erased."
    )
    finished_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="End; NULL: a worker goes on."
    )
