"""Messages on their way in."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Mapped

from shared.models.base import Base, Row


class InboxMessage(Row, Base):
    """An incoming event; each is stored once."""

    __tablename__ = "inbox"

    adapter: Mapped[str]
    platform: Mapped[str]
    platform_event_id: Mapped[str]
    place_key: Mapped[str]
    platform_server_id: Mapped[str | None]
    platform_channel_id: Mapped[str]
    platform_thread_id: Mapped[str | None]
    is_direct: Mapped[bool]
    platform_user_id: Mapped[str]
    platform_username: Mapped[str | None]
    replied_to: Mapped[str | None]
    platform_message_id: Mapped[str | None]
    content: Mapped[str]
    attachments: Mapped[list[Any]]
    wants_stream: Mapped[bool]
    platform_context: Mapped[dict[str, Any]]
    sent_at: Mapped[datetime]
    edited_at: Mapped[datetime | None]
    status: Mapped[str]
    decision: Mapped[dict[str, Any] | None]
    due_job: Mapped[dict[str, Any] | None]
    turn_id: Mapped[int | None]
    credentials: Mapped[dict[str, Any] | None]
    request: Mapped[dict[str, Any] | None]
    again_of: Mapped[int | None]
