"""Ratings of answers."""

from sqlalchemy import CheckConstraint, ForeignKey, SmallInteger, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Feedback(Row, Base):
    """The latest rating of an answer by a user."""

    __tablename__ = "feedback"
    __table_args__ = (
        UniqueConstraint("turn_id", "user_id"),
        CheckConstraint("score IN (-1, 1)", name="score_is_1_or_minus_1"),
        {"comment": "Thumbs up and down."},
    )

    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"), comment="The answer's turn.")
    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), index=True, comment="Who says so.")
    score: Mapped[int] = mapped_column(SmallInteger, comment="1: good, -1: bad.")
