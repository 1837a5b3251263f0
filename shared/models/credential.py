"""Credentials of people for other services."""

from sqlalchemy import CheckConstraint, ForeignKey, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Credential(Row, Base):
    """A credential that a person has entered for the modules' tools."""

    __tablename__ = "credentials"
    __table_args__ = (
        UniqueConstraint("user_id", "name"),
        CheckConstraint(
            "name ~ '^[a-z][a-z0-9_-]{0,39}$'", name="name_is_at_most_40_of_a_to_z_digits_hyphen_and_underscore"
        ),
        {"comment": "Credentials of people for other services, which tools use for them; models never see them."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whose it is.")
    name: Mapped[str] = mapped_column(Text, comment="What tools call it, e.g. pms.")
    encrypted: Mapped[str] = mapped_column(Text, comment="The credential, encrypted with a key made of SECRET_KEY.")
