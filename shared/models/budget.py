"""The ledger of model calls, and the budget reservations of running ones."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import BigInteger, Boolean, CheckConstraint, DateTime, ForeignKey, Index, Integer, Numeric, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class TokenLog(Row, Base):
    """A model call that was made, with its tokens and cost as reported or estimated."""

    __tablename__ = "token_logs"
    __table_args__ = (
        CheckConstraint(
            "input_tokens >= 0 AND cached_tokens >= 0 AND output_tokens >= 0", name="tokens_are_not_negative"
        ),
        Index(None, "user_id", "created_at"),
        Index(None, "turn_id"),
        Index(None, "conversation_id"),
        {"comment": "One row per model call, with the model that really answered."},
    )

    user_id: Mapped[int | None] = mapped_column(ForeignKey("users.id", ondelete="SET NULL"), comment="Who pays.")
    conversation_id: Mapped[int | None] = mapped_column(
        ForeignKey("conversations.id", ondelete="SET NULL"), comment="Where."
    )
    turn_id: Mapped[int | None] = mapped_column(ForeignKey("turns.id", ondelete="SET NULL"), comment="For which turn.")
    reservation_id: Mapped[int | None] = mapped_column(
        BigInteger, unique=True, comment="The reservation that the call was admitted with; NULL: it needed none."
    )
    purpose: Mapped[str] = mapped_column(Text, server_default="answer", comment="answer, summary, embedding, …")
    model: Mapped[str] = mapped_column(Text, comment="litellm name of the model that answered.")
    input_tokens: Mapped[int] = mapped_column(Integer, server_default="0", comment="Tokens of the prompt.")
    cached_tokens: Mapped[int] = mapped_column(
        Integer, server_default="0", comment="Of these, read from the provider's cache."
    )
    output_tokens: Mapped[int] = mapped_column(Integer, server_default="0", comment="Tokens of the answer.")
    cost_estimate: Mapped[Decimal | None] = mapped_column(
        Numeric(14, 8), comment="US dollars; NULL: the price is unknown."
    )
    is_estimated: Mapped[bool] = mapped_column(
        Boolean,
        server_default=text("false"),
        comment="The provider reported no usage, for instance because the answer broke off or the worker died.",
    )


class BudgetReservation(Row, Base):
    """Tokens reserved for a running model call until it is settled, released or expires."""

    __tablename__ = "budget_reservations"
    __table_args__ = (
        CheckConstraint("tokens >= 0", name="tokens_is_not_negative"),
        Index(None, "user_id"),
        Index(None, "expires_at"),
        Index("uq_budget_reservations_turn", "turn_id", unique=True),
        {"comment": "What model calls hold just now; users.tokens_reserved is their sum."},
    )

    user_id: Mapped[int] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"), comment="Whose budget.")
    turn_id: Mapped[int] = mapped_column(
        ForeignKey("turns.id", ondelete="CASCADE"), comment="Which turn; one call at a time."
    )
    server_id: Mapped[int | None] = mapped_column(
        ForeignKey("servers.id", ondelete="SET NULL"), index=True, comment="The server whose budget holds it too."
    )
    tokens: Mapped[int] = mapped_column(BigInteger, comment="Upper estimate: prompt plus allowed output.")
    expires_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), comment="Charged as an estimate, or given back, by the sweeper after this."
    )
