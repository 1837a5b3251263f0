"""Limits on what may be spent and grants on top of them, the ledger of model calls, reservations of running ones."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    SmallInteger,
    Text,
    text,
)
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
    budget_ids: Mapped[list[int] | None] = mapped_column(
        ARRAY(BigInteger), comment="The rows of budgets that it was charged to; NULL: none."
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
    budget_ids: Mapped[list[int] | None] = mapped_column(
        ARRAY(BigInteger), comment="The rows of budgets that hold it too; NULL: none."
    )
    tokens: Mapped[int] = mapped_column(BigInteger, comment="Upper estimate: prompt plus allowed output.")
    cost: Mapped[Decimal | None] = mapped_column(
        Numeric(14, 8), comment="Upper estimate in US dollars; NULL: a price is unknown."
    )
    expires_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True), comment="Charged as an estimate, or given back, by the sweeper after this."
    )


class Budget(Row, Base):
    """A limit on tokens or dollars for a day or a month, beside the monthly tokens of people and servers."""

    __tablename__ = "budgets"
    __table_args__ = (
        CheckConstraint(
            "kind IN ('person', 'permission', 'role', 'channel', 'persona', 'server', 'installation')",
            name="kind_is_known",
        ),
        CheckConstraint(
            "(kind = 'person') = (user_id IS NOT NULL) AND (kind = 'persona') = (persona_id IS NOT NULL)"
            " AND (kind = 'permission') = (permission_level IS NOT NULL) AND (kind = 'role') = (role IS NOT NULL)"
            " AND (kind = 'channel') = (platform_channel_id IS NOT NULL)"
            " AND (kind IN ('role', 'channel', 'server')) = (platform IS NOT NULL)"
            " AND (platform_server_id IS NULL OR kind IN ('role', 'channel', 'server'))"
            " AND (platform_server_id IS NOT NULL OR kind NOT IN ('role', 'server'))",
            name="what_is_limited_is_named_as_its_kind_needs",
        ),
        CheckConstraint(
            "permission_level IN ('guest', 'user', 'admin', 'owner')",
            name="permission_level_is_guest_user_admin_or_owner",
        ),
        CheckConstraint("period IN ('day', 'month')", name="period_is_day_or_month"),
        CheckConstraint("num_nonnulls(token_limit, cost_limit) > 0", name="tokens_or_dollars_are_limited"),
        CheckConstraint("token_limit >= 0 AND cost_limit >= 0", name="limits_are_not_negative"),
        CheckConstraint(
            "tokens_used >= 0 AND tokens_reserved >= 0 AND cost_used >= 0 AND cost_reserved >= 0",
            name="counters_are_not_negative",
        ),
        Index(
            "uq_budgets_subject",
            "kind",
            "period",
            "user_id",
            "persona_id",
            "permission_level",
            "platform",
            "platform_server_id",
            "role",
            "platform_channel_id",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
        Index(None, "user_id"),
        Index(None, "persona_id"),
        Index(None, "platform", "platform_server_id"),
        {
            "comment": "Limits that hold beside the monthly tokens of people and servers."
            " All that apply to a call must admit it; each counts from when it was made."
        },
    )

    kind: Mapped[str] = mapped_column(
        Text, comment="person, permission, role, channel, persona, server or installation: what is limited together."
    )
    period: Mapped[str] = mapped_column(Text, server_default="month", comment="day or month, of the calendar in UTC.")
    user_id: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), comment="person: whose calls."
    )
    persona_id: Mapped[int | None] = mapped_column(
        ForeignKey("personas.id", ondelete="CASCADE"), comment="persona: whose answers."
    )
    permission_level: Mapped[str | None] = mapped_column(
        Text, comment="permission: all people with this permission_level together."
    )
    platform: Mapped[str | None] = mapped_column(Text, comment="role, channel, server: the platform.")
    platform_server_id: Mapped[str | None] = mapped_column(
        Text, comment="role, channel, server: the server; NULL for a channel without one."
    )
    role: Mapped[str | None] = mapped_column(Text, comment="role: its id; all who have it, on that server.")
    platform_channel_id: Mapped[str | None] = mapped_column(Text, comment="channel: its id, threads included.")
    token_limit: Mapped[int | None] = mapped_column(BigInteger, comment="Tokens in a period; NULL: unlimited.")
    cost_limit: Mapped[Decimal | None] = mapped_column(
        Numeric(14, 8), comment="US dollars in a period; NULL: unlimited. Refuses models whose price is unknown."
    )
    tokens_used: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="Tokens spent in the period that ends at resets_at."
    )
    tokens_reserved: Mapped[int] = mapped_column(
        BigInteger, server_default="0", comment="Tokens held by model calls that are running now."
    )
    cost_used: Mapped[Decimal] = mapped_column(
        Numeric(20, 8), server_default="0", comment="US dollars spent; calls of unknown price are not in it."
    )
    cost_reserved: Mapped[Decimal] = mapped_column(
        Numeric(20, 8), server_default="0", comment="US dollars held by model calls that are running now."
    )
    percent_told: Mapped[int] = mapped_column(
        SmallInteger, server_default="0", comment="The highest of 50, 80 and 100 percent that was told in this period."
    )
    resets_at: Mapped[datetime] = mapped_column(
        DateTime(timezone=True),
        server_default=text("now()"),
        comment="END of the period: when it has passed, what was used goes back to 0.",
    )


ONE_LIMIT = "num_nonnulls(limit_user_id, limit_server_id, limit_budget_id) = 1"


class BudgetGrant(Row, Base):
    """More than a limit allows, asked for by a person and granted until a date, or refused."""

    __tablename__ = "budget_grants"
    __table_args__ = (
        CheckConstraint(ONE_LIMIT, name="it_is_about_one_limit"),
        CheckConstraint("status IN ('asked', 'granted', 'refused')", name="status_is_asked_granted_or_refused"),
        CheckConstraint("tokens >= 0 AND cost >= 0", name="amounts_are_not_negative"),
        CheckConstraint("status <> 'granted' OR ends_at IS NOT NULL", name="what_is_granted_ends"),
        Index(None, "limit_user_id"),
        Index(None, "limit_server_id"),
        Index(None, "limit_budget_id"),
        Index(None, "asked_by_id"),
        Index(None, "decided_by_id"),
        {"comment": "What was asked for and granted on top of a limit, until a date."},
    )

    limit_user_id: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), comment="The limit: the monthly tokens of this person."
    )
    limit_server_id: Mapped[int | None] = mapped_column(
        ForeignKey("servers.id", ondelete="CASCADE"), comment="The limit: the monthly tokens of this server."
    )
    limit_budget_id: Mapped[int | None] = mapped_column(
        ForeignKey("budgets.id", ondelete="CASCADE"), comment="The limit: this row of budgets."
    )
    status: Mapped[str] = mapped_column(Text, server_default="asked", comment="asked, granted or refused.")
    tokens: Mapped[int] = mapped_column(BigInteger, server_default="0", comment="Tokens more.")
    cost: Mapped[Decimal] = mapped_column(Numeric(14, 8), server_default="0", comment="US dollars more.")
    ends_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="Until when it counts; NULL: not granted."
    )
    asked_by_id: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="SET NULL"), comment="Who asked; NULL: nobody did."
    )
    decided_by_id: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="SET NULL"), comment="Who granted or refused it; NULL: nobody yet, or psql."
    )
    decided_at: Mapped[datetime | None] = mapped_column(
        DateTime(timezone=True), comment="When it was granted or refused."
    )


class BudgetNotice(Row, Base):
    """A limit that has reached 50, 80 or 100 percent, of which somebody is still to be told."""

    __tablename__ = "budget_notices"
    __table_args__ = (
        CheckConstraint(ONE_LIMIT, name="it_is_about_one_limit"),
        Index(None, "limit_user_id"),
        Index(None, "limit_server_id"),
        Index(None, "limit_budget_id"),
        {"comment": "Limits that have reached a threshold; a row goes when it was told."},
    )

    limit_user_id: Mapped[int | None] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), comment="The limit: the monthly tokens of this person."
    )
    limit_server_id: Mapped[int | None] = mapped_column(
        ForeignKey("servers.id", ondelete="CASCADE"), comment="The limit: the monthly tokens of this server."
    )
    limit_budget_id: Mapped[int | None] = mapped_column(
        ForeignKey("budgets.id", ondelete="CASCADE"), comment="The limit: this row of budgets."
    )
    percent: Mapped[int] = mapped_column(SmallInteger, comment="50, 80 or 100.")
