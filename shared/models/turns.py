"""Conversations, their turns, and the journal."""

from datetime import datetime
from typing import Any

from sqlalchemy import Integer
from sqlalchemy.dialects.postgresql import INT8MULTIRANGE, Range
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Conversation(Row, Base):
    """The conversation of one place."""

    __tablename__ = "conversations"

    platform: Mapped[str]
    platform_server_id: Mapped[str | None]
    platform_channel_id: Mapped[str]
    platform_thread_id: Mapped[str | None]
    is_direct: Mapped[bool]
    adapter: Mapped[str | None]
    user_id: Mapped[int | None]
    persona_id: Mapped[int | None]
    started_at: Mapped[datetime]
    last_active_at: Mapped[datetime]
    is_summarized: Mapped[bool]
    is_memory_paused: Mapped[bool]
    summary: Mapped[str | None]
    window_turn_id: Mapped[int]
    summarized_turn_id: Mapped[int]
    summary_due_at: Mapped[datetime | None]
    summary_is_urgent: Mapped[bool]
    summary_claimed_until: Mapped[datetime | None]
    summary_failures: Mapped[int] = mapped_column(Integer)
    summary_error: Mapped[str | None]
    facts_turn_id: Mapped[int]
    facts_failures: Mapped[int] = mapped_column(Integer)
    facts_retry_at: Mapped[datetime | None]
    shown_turns: Mapped[list[Range[int]] | None] = mapped_column(INT8MULTIRANGE)
    chosen_persona_id: Mapped[int | None]
    chosen_model: Mapped[str | None]


class Turn(Row, Base):
    """The work from an incoming message to its reply."""

    __tablename__ = "turns"

    conversation_id: Mapped[int]
    user_id: Mapped[int | None]
    persona_id: Mapped[int | None]
    persona_version_id: Mapped[int | None]
    status: Mapped[str]
    attempt: Mapped[int] = mapped_column(Integer)
    handovers: Mapped[int] = mapped_column(Integer)
    parent_turn_id: Mapped[int | None]
    parent_call_id: Mapped[str | None]
    agent: Mapped[str | None]
    iterations: Mapped[int] = mapped_column(Integer)
    loop_mode: Mapped[str]
    waves: Mapped[int] = mapped_column(Integer)
    finished: Mapped[bool | None]
    model: Mapped[str | None]
    error: Mapped[str | None]
    cause: Mapped[str | None]
    stop_requested: Mapped[bool]
    live_message_id: Mapped[str | None]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]


class TurnEvent(Row, Base):
    """An event of a turn that is streamed to readers; text deltas are not stored."""

    __tablename__ = "turn_events"

    turn_id: Mapped[int]
    seq: Mapped[int] = mapped_column(Integer)
    name: Mapped[str]
    payload: Mapped[dict[str, Any]]
