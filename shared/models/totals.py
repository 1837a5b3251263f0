"""Totals of finished turns and model calls: what the metrics show of rows that have been counted."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Float, Numeric, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class TurnTotal(Row, Base):
    """The counted turns with one loop mode and one outcome."""

    __tablename__ = "turn_totals"
    __table_args__ = (
        UniqueConstraint("loop_mode", "outcome"),
        {"comment": "Totals of the finished turns of messages, as far as they are counted (counted_rows)."},
    )

    loop_mode: Mapped[str] = mapped_column(Text, comment="native or planner.")
    outcome: Mapped[str] = mapped_column(
        Text, comment="finished, unfinished (answered, but not completely), refused, failed or cancelled."
    )
    turns: Mapped[int] = mapped_column(BigInteger, comment="How many turns.")
    seconds: Mapped[float] = mapped_column(Float, comment="How long they took together.")
    waves: Mapped[int] = mapped_column(BigInteger, comment="Their waves of tool calls.")
    model_calls: Mapped[int] = mapped_column(BigInteger, comment="Their model calls.")


class CallTotal(Row, Base):
    """The counted model calls of one model for one purpose."""

    __tablename__ = "call_totals"
    __table_args__ = (
        UniqueConstraint("model", "purpose"),
        {"comment": "Totals of token_logs, as far as they are counted (counted_rows); they outlive those rows."},
    )

    model: Mapped[str] = mapped_column(Text, comment="litellm name of the model that answered.")
    purpose: Mapped[str] = mapped_column(Text, comment="answer, summary, embedding, …")
    calls: Mapped[int] = mapped_column(BigInteger, comment="How many calls.")
    input_tokens: Mapped[int] = mapped_column(BigInteger, comment="Tokens of the prompts.")
    cached_tokens: Mapped[int] = mapped_column(BigInteger, comment="Of these, read from the provider's cache.")
    output_tokens: Mapped[int] = mapped_column(BigInteger, comment="Tokens of the answers.")
    cost: Mapped[Decimal] = mapped_column(Numeric(20, 8), comment="US dollars, of the calls whose price is known.")
    unpriced: Mapped[int] = mapped_column(
        BigInteger, server_default=text("0"), comment="Of these, calls whose price is unknown."
    )


class ToolTotal(Row, Base):
    """The counted calls of one tool with one outcome that took about as long as each other."""

    __tablename__ = "tool_totals"
    __table_args__ = (
        UniqueConstraint("tool", "outcome", "most_seconds"),
        {"comment": "Totals of tool calls in messages, as far as they are counted (counted_rows)."},
    )

    tool: Mapped[str] = mapped_column(Text, comment="module.tool")
    outcome: Mapped[str] = mapped_column(Text, comment="result, failed, not_run or needs_approval.")
    most_seconds: Mapped[float] = mapped_column(
        Float,
        comment="These calls took at most so long, and longer than the next smaller number; Infinity for the longest.",
    )
    calls: Mapped[int] = mapped_column(BigInteger, comment="How many calls.")
    seconds: Mapped[float] = mapped_column(Float, comment="How long they took together.")


class EventTotal(Row, Base):
    """How often something has gone wrong."""

    __tablename__ = "event_totals"
    __table_args__ = (
        UniqueConstraint("kind", "subject", "detail"),
        CheckConstraint("kind IN ('turn_error', 'route_failure', 'fallback')", name="kind_is_known"),
        {"comment": "Totals of what went wrong, for the metrics."},
    )

    kind: Mapped[str] = mapped_column(
        Text,
        comment="turn_error: a turn ended with an error; route_failure: a model did not answer; fallback: another"
        " model answered in its place.",
    )
    subject: Mapped[str] = mapped_column(Text, comment="The code of the error; the model that failed.")
    detail: Mapped[str] = mapped_column(Text, comment="Why the model failed; the model that answered; else empty.")
    events: Mapped[int] = mapped_column(BigInteger, comment="How many.")
    last_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), server_default=text("now()"), comment="When the last of them was counted."
    )


class CountedRows(Row, Base):
    """How far a table has been counted."""

    __tablename__ = "counted_rows"
    __table_args__ = (
        UniqueConstraint("table_name"),
        CheckConstraint("table_name IN ('turns', 'token_logs', 'messages')", name="table_name_is_a_counted_table"),
        {"comment": "How far the totals have come."},
    )

    table_name: Mapped[str] = mapped_column(Text, comment="turns, token_logs or messages.")
    last_id: Mapped[int] = mapped_column(
        BigInteger, server_default=text("0"), comment="Rows up to this id are in the totals."
    )
