"""Messages on their way in, and what is to be done later."""

from datetime import datetime
from typing import Any

from sqlalchemy import Integer
from sqlalchemy.orm import Mapped, mapped_column

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


class ScheduledJob(Row, Base):
    """A job of one person in one conversation."""

    __tablename__ = "scheduled_jobs"

    user_id: Mapped[int]
    conversation_id: Mapped[int]
    adapter: Mapped[str]
    author: Mapped[str]
    platform_user_id: Mapped[str]
    module: Mapped[str]
    action: Mapped[str]
    content: Mapped[str]
    kind: Mapped[str]
    time_zone: Mapped[str]
    starts_at: Mapped[datetime | None]
    every: Mapped[int] = mapped_column(Integer)
    unit: Mapped[str]
    cron: Mapped[str]
    check_tool: Mapped[str | None]
    check_arguments: Mapped[dict[str, Any]]
    condition: Mapped[dict[str, Any] | None]
    expires_at: Mapped[datetime | None]
    requires: Mapped[str]
    status: Mapped[str]
    next_due_at: Mapped[datetime | None]
    last_due_at: Mapped[datetime | None]
    claimed_until: Mapped[datetime | None]
    runs: Mapped[int]
    error: Mapped[str | None]
    ended_at: Mapped[datetime | None]
