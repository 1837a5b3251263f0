"""Turns and their journal: messages are the transcript, events the progress that is streamed to readers."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class Turn(Row, Base):
    """The work from an incoming message to its reply."""

    __tablename__ = "turns"
    __table_args__ = (
        CheckConstraint(
            "status IN ('running', 'answered', 'refused', 'failed', 'cancelled')",
            name="status_is_running_answered_refused_failed_or_cancelled",
        ),
        CheckConstraint("(status = 'running') = (finished_at IS NULL)", name="finished_at_goes_with_the_end"),
        CheckConstraint(
            "num_nonnulls(parent_turn_id, parent_call_id, agent) IN (0, 3)", name="delegated_by_a_call_to_an_agent"
        ),
        Index(
            "uq_turns_one_running",
            "conversation_id",
            unique=True,
            postgresql_where=text("status = 'running' AND parent_turn_id IS NULL"),
        ),
        Index(
            "uq_turns_one_per_call",
            "parent_turn_id",
            "parent_call_id",
            unique=True,
            postgresql_where=text("parent_turn_id IS NOT NULL"),
        ),
        Index(
            "ix_turns_running_below",
            "parent_turn_id",
            postgresql_where=text("status = 'running' AND parent_turn_id IS NOT NULL"),
        ),
        CheckConstraint("loop_mode IN ('native', 'planner')", name="loop_mode_is_native_or_planner"),
        Index(None, "conversation_id", "id"),
        Index(None, "user_id"),
        Index(None, "persona_id"),
        {
            "comment": "One per answered message, or per run of messages that one person wrote in a row;"
            " and one per task that a turn hands to an agent."
        },
    )

    conversation_id: Mapped[int] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"), comment="Where.")
    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"), comment="Who wrote.")
    persona_id: Mapped[int | None] = mapped_column(
        ForeignKey("personas.id", ondelete="SET NULL"), comment="Who answers."
    )
    # Without a foreign key: versions are never deleted, and each turn would lock the row and add to one more index.
    persona_version_id: Mapped[int | None] = mapped_column(
        BigInteger,
        comment="The row of persona_versions that answered, which is kept; NULL: the built-in persona.",
    )
    status: Mapped[str] = mapped_column(
        Text, server_default="running", comment="running, answered, refused, failed or cancelled."
    )
    attempt: Mapped[int] = mapped_column(
        Integer, server_default="1", comment="Counts takeovers; a worker with an older number writes nothing."
    )
    handovers: Mapped[int] = mapped_column(
        Integer, server_default="0", comment="Takeovers that a stopping worker asked for; they are not failures."
    )
    parent_turn_id: Mapped[int | None] = mapped_column(
        ForeignKey("turns.id", ondelete="CASCADE"), comment="The turn that handed this task over; NULL: a message's."
    )
    parent_call_id: Mapped[str | None] = mapped_column(Text, comment="The tool call in it that asked.")
    agent: Mapped[str | None] = mapped_column(Text, comment="The name of the agent that was asked.")
    iterations: Mapped[int] = mapped_column(Integer, server_default="0", comment="Model calls.")
    loop_mode: Mapped[str] = mapped_column(
        Text, server_default="native", comment="native: the model called tools; planner: it wrote plans."
    )
    waves: Mapped[int] = mapped_column(
        Integer, server_default="0", comment="Waves of tool calls, one after the other; counted at the end."
    )
    finished: Mapped[bool | None] = mapped_column(comment="Was the answer complete? NULL while running.")
    model: Mapped[str | None] = mapped_column(Text, comment="The model that gave the last answer.")
    error: Mapped[str | None] = mapped_column(Text, comment="Stable code of what went wrong, as the caller is told.")
    cause: Mapped[str | None] = mapped_column(Text, comment="What went wrong, for the operator.")
    stop_requested: Mapped[bool] = mapped_column(server_default=text("false"), comment="Did the person ask to stop?")
    live_message_id: Mapped[str | None] = mapped_column(
        Text, comment="The platform's message that is edited while it runs."
    )
    started_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now(), comment="Begin.")
    finished_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True), comment="End; NULL while running.")


class Message(Row, Base):
    """A step of a turn. A step that is recorded is not executed again."""

    __tablename__ = "messages"
    __table_args__ = (
        UniqueConstraint("turn_id", "seq"),
        CheckConstraint(
            "role IN ('user', 'assistant', 'tool_call', 'tool_result')",
            name="role_is_user_assistant_tool_call_or_tool_result",
        ),
        CheckConstraint(
            "role NOT LIKE 'tool%' OR (tool_call_id IS NOT NULL AND tool_name IS NOT NULL)", name="tool_is_named"
        ),
        CheckConstraint("token_count >= 0", name="token_count_is_not_negative"),
        CheckConstraint("outcome IN ('result', 'failed', 'not_run', 'needs_approval')", name="outcome_is_known"),
        CheckConstraint("outcome IS NULL OR role = 'tool_result'", name="outcome_is_of_a_result"),
        CheckConstraint("confirmation IS NULL OR role LIKE 'tool%'", name="confirmation_is_of_a_call"),
        Index(None, "conversation_id", "turn_id", "seq"),
        Index(None, "user_id"),
        {"comment": "The transcript, in the order of turn_id and seq."},
    )

    conversation_id: Mapped[int | None] = mapped_column(
        ForeignKey("conversations.id", ondelete="CASCADE"),
        comment="Where; NULL: a step of an agent that was asked, which is part of no conversation.",
    )
    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"), comment="The turn.")
    seq: Mapped[int] = mapped_column(Integer, comment="Position within the turn, from 0.")
    user_id: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="SET NULL"), comment="Whose turn it was."
    )
    speaker: Mapped[str | None] = mapped_column(Text, comment="The name that the person had on the platform.")
    role: Mapped[str] = mapped_column(Text, comment="user, assistant, tool_call or tool_result.")
    content: Mapped[str] = mapped_column(
        Text, comment="Text; JSON arguments of a tool_call; JSON outcome of a tool_result."
    )
    token_count: Mapped[int] = mapped_column(
        Integer, server_default="0", comment="Tokens, estimated or as the model said."
    )
    model_used: Mapped[str | None] = mapped_column(Text, comment="The model that wrote it.")
    platform_message_id: Mapped[str | None] = mapped_column(Text, comment="The message's id on the platform.")
    tool_call_id: Mapped[str | None] = mapped_column(Text, comment="Joins a tool_call with its tool_result.")
    tool_name: Mapped[str | None] = mapped_column(Text, comment="module.tool")
    plan: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB(none_as_null=True), comment="Planner mode: the plan that this answer was; NULL for all else."
    )
    outcome: Mapped[str | None] = mapped_column(
        Text, comment="Of a tool_result: result, failed, not_run or needs_approval; NULL in rows of older releases."
    )
    confirmation: Mapped[dict[str, Any] | None] = mapped_column(
        JSONB(none_as_null=True),
        comment="Of a tool_result: the question that waits for a yes; of a tool_call: the answer that it carries out.",
    )


class FullResult(Row, Base):
    """A tool's result as it came, when the model was shown only a part of it."""

    __tablename__ = "full_results"
    __table_args__ = (
        UniqueConstraint("turn_id", "seq"),
        {"comment": "Results of tools that were too long for the model, as they came; the step has what it was shown."},
    )

    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"), comment="The turn.")
    seq: Mapped[int] = mapped_column(Integer, comment="The position of the result's step in messages.")
    content: Mapped[str] = mapped_column(Text, comment="The result as JSON, up to TOOL_RESULT_KEPT_CHARS.")


class TurnContext(Row, Base):
    """What the prompt of a turn was made of."""

    __tablename__ = "turn_contexts"
    __table_args__ = (
        UniqueConstraint("turn_id"),
        {"comment": "Why turns went as they did, for parley explain: names, numbers and ids, no text of people."},
    )

    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"), comment="The turn.")
    reasons: Mapped[dict[str, Any]] = mapped_column(
        JSONB,
        comment="What the prompt was made of, with the scores of memories; why the persona; tools offered and removed;"
        " what the budget said; the attempts on routes.",
    )


class UnrememberedTurn(Base):
    """A turn whose messages are to become memories."""

    __tablename__ = "unremembered_turns"
    __table_args__ = ({"comment": "Turns that have ended, until a worker has stored their messages as memories."},)

    turn_id: Mapped[int] = mapped_column(
        ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, comment="The turn."
    )
    created_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the row was made."
    )


class ForgottenTurn(Base):
    """A turn that its person asked to forget."""

    __tablename__ = "forgotten_turns"
    __table_args__ = ({"comment": "Turns that their person asked to forget: no memory or summary is made of them."},)

    turn_id: Mapped[int] = mapped_column(
        ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, comment="The turn."
    )
    created_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=func.now(), comment="When the row was made."
    )


class TurnEvent(Row, Base):
    """An event of a turn that is streamed to readers; text deltas are not stored."""

    __tablename__ = "turn_events"
    __table_args__ = (
        UniqueConstraint("turn_id", "seq"),
        {"comment": "What a turn told while it ran, in the order of seq."},
    )

    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"), comment="The turn.")
    seq: Mapped[int] = mapped_column(Integer, comment="Position within the turn; deltas leave gaps.")
    name: Mapped[str] = mapped_column(
        Text, comment="user_message, turn_started, tool_call, tool_result, message, turn_complete, …"
    )
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default=text("'{}'"), comment="The event's content.")
