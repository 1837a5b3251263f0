"""The log of what admins change."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Identity, Index, LargeBinary, Text, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base


class AuditEntry(Base):
    """One changed row of a table that admins change; triggers write it, nobody changes it."""

    __tablename__ = "audit_log"
    __table_args__ = (
        CheckConstraint("action IN ('insert', 'update', 'delete')", name="action_is_insert_update_or_delete"),
        Index("ix_audit_log_table_name_row_id", "table_name", "row_id"),
        {
            "comment": "What was changed of budgets, permissions, personas, agents, servers and sources, by whom."
            " Append-only: each entry holds the hash of the one before."
        },
    )

    id: Mapped[int] = mapped_column(
        BigInteger, Identity(always=True), primary_key=True, comment="The entry's number: admin.undo(number)."
    )
    created_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.clock_timestamp(), comment="When it was changed."
    )
    table_name: Mapped[str] = mapped_column(Text, comment="The table.")
    row_id: Mapped[int] = mapped_column(BigInteger, comment="The row's number there.")
    action: Mapped[str] = mapped_column(Text, comment="insert, update or delete.")
    old_values: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB, comment="Before: of an update what has changed, of a deletion all; NULL: inserted."
    )
    new_values: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB, comment="After: of an update what has changed, of an insertion all; NULL: deleted."
    )
    database_user: Mapped[str] = mapped_column(Text, comment="The role that was connected to the database.")
    actor: Mapped[str | None] = mapped_column(
        Text, comment="Who, as the program says: cli, an account such as discord:80351110224678912; NULL: psql."
    )
    undoes: Mapped[int | None] = mapped_column(BigInteger, index=True, comment="The entry that this one takes back.")
    previous_hash: Mapped[bytes | None] = mapped_column(
        LargeBinary, comment="The hash of the entry before; NULL: the first."
    )
    hash: Mapped[bytes] = mapped_column(LargeBinary, comment="SHA-256 of the entry and of previous_hash.")
