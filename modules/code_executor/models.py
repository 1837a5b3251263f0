"""What programs of people leave for their next run."""

from datetime import datetime

from sqlalchemy import ARRAY, BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Workspace(Row, Base):
    """The files and variables of one person in one conversation."""

    __tablename__ = "code_workspaces"

    user_id: Mapped[int]
    conversation_id: Mapped[int]
    file_ids: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    state: Mapped[bytes | None]
    used_at: Mapped[datetime]
