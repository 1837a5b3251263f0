"""Files in storage, with their owner and status."""

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class FileRecord(Row, Base):
    """A file of a user."""

    __tablename__ = "file_records"
    __table_args__ = (
        UniqueConstraint("minio_key"),
        CheckConstraint("status IN ('pending', 'stored', 'failed')", name="status_is_pending_stored_or_failed"),
        CheckConstraint("size_bytes >= 0", name="size_bytes_is_not_negative"),
        CheckConstraint("sha256 ~ '^[0-9a-f]{64}$'", name="sha256_is_64_hexadecimal_digits"),
        Index(None, "user_id", "id"),
        Index(None, "conversation_id"),
        Index(None, "turn_id"),
        {"comment": "Files in storage; the bytes are in a folder or an S3 bucket under minio_key."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="The owner.")
    conversation_id: Mapped[int | None] = mapped_column(
        ForeignKey("conversations.id", ondelete="SET NULL"), comment="Where it was sent or made."
    )
    turn_id: Mapped[int | None] = mapped_column(
        ForeignKey("turns.id", ondelete="SET NULL"), comment="The turn it came with."
    )
    filename: Mapped[str] = mapped_column(Text, comment="The name that people see.")
    minio_key: Mapped[str] = mapped_column(Text, comment="The key in storage.")
    mime_type: Mapped[str] = mapped_column(Text, comment="The type, found from the content.")
    size_bytes: Mapped[int] = mapped_column(BigInteger, server_default="0", comment="Size in bytes.")
    status: Mapped[str] = mapped_column(Text, server_default="pending", comment="pending, stored or failed.")
    sha256: Mapped[str | None] = mapped_column(
        Text, comment="SHA-256 of the bytes as they were stored, compared whenever they are read."
    )
