"""Commands that wait for a person's yes."""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, DateTime, ForeignKey, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class CommandConfirmation(Row, Base):
    """A command that deletes what belongs to a person, until that person confirms it."""

    __tablename__ = "command_confirmations"
    __table_args__ = (
        UniqueConstraint("user_id"),
        CheckConstraint("action IN ('forget', 'forget_all', 'erase')", name="action_is_known"),
        CheckConstraint("(action = 'forget') = (memory_ids <> '{}')", name="forgetting_names_the_memories"),
        {"comment": "Commands that delete a person's own data and wait for that person's yes; one of each person."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Who has to confirm.")
    action: Mapped[str] = mapped_column(
        Text, comment="forget: these memories; forget_all: all of the person's; erase: the person."
    )
    memory_ids: Mapped[list[int]] = mapped_column(
        ARRAY(BigInteger), server_default=text("'{}'"), comment="The memories that were shown to the person."
    )
    expires_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True),
        server_default=text("now() + interval '10 minutes'"),
        comment="Until when it can be confirmed.",
    )
