"""The table of workspaces: what a person's code finds in a conversation from earlier runs."""

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Workspace(Row, Base):
    """The files and variables of one person in one conversation."""

    __tablename__ = "code_workspaces"
    __table_args__ = (
        UniqueConstraint("user_id", "conversation_id"),
        Index(None, "conversation_id"),
        Index(None, "used_at"),
        CheckConstraint("cardinality(file_ids) <= 20", name="has_at_most_20_files"),
        CheckConstraint("octet_length(state) <= 16777216", name="state_has_at_most_16_mb"),
        {"comment": "What code of the module code_executor finds from earlier runs; gone a week after its last use."},
    )

    user_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("users.id", ondelete="CASCADE"), comment="Whose it is: nobody else's code sees it."
    )
    conversation_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("conversations.id", ondelete="CASCADE"), comment="Where it is used."
    )
    file_ids: Mapped[list[int]] = mapped_column(
        ARRAY(BigInteger), server_default=text("'{}'"), comment="The files of file_records in it, the oldest first."
    )
    state: Mapped[bytes | None] = mapped_column(
        LargeBinary, comment="The variables, pickled; only the sandbox may load them."
    )
    used_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When it was last used."
    )
