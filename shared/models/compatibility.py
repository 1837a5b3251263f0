"""Which releases may use the tables."""

from sqlalchemy import CheckConstraint, Text
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class SchemaCompatibility(Row, Base):
    """The oldest revision whose program works with the tables as they are; one row, changed by migrations alone."""

    __tablename__ = "schema_compatibility"
    __table_args__ = (
        CheckConstraint("id = 1", name="has_one_row"),
        {"comment": "Which releases may use these tables; migrations alone change it."},
    )

    oldest_revision: Mapped[str] = mapped_column(
        Text, comment="A program whose own revision is lower does not work with these tables."
    )
