"""People's files."""

from sqlalchemy import FetchedValue
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class FileRecord(Row, Base):
    """A file of a user."""

    __tablename__ = "file_records"

    user_id: Mapped[int]
    conversation_id: Mapped[int | None]
    turn_id: Mapped[int | None]
    filename: Mapped[str]
    minio_key: Mapped[str]
    mime_type: Mapped[str]
    size_bytes: Mapped[int] = mapped_column(server_default=FetchedValue())
    status: Mapped[str] = mapped_column(server_default=FetchedValue())
    sha256: Mapped[str | None]
    author: Mapped[str] = mapped_column(server_default=FetchedValue())
