"""Permissions and budgets that roles on a server grant."""

from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.models.base import Base, Row


class RoleGrant(Row, Base):
    """The permission and budget that a role grants to its members."""

    __tablename__ = "role_grants"
    __table_args__ = (
        UniqueConstraint("platform", "server", "role"),
        CheckConstraint(
            "permission_level IN ('guest', 'user', 'admin', 'owner')",
            name="permission_level_is_guest_user_admin_or_owner",
        ),
        CheckConstraint("token_budget >= 0", name="token_budget_is_not_negative"),
        {"comment": "What roles give; the highest wins, and it goes with the role. Counts from the next message on."},
    )

    platform: Mapped[str] = mapped_column(Text, server_default="discord", comment="The platform.")
    server: Mapped[str] = mapped_column(Text, comment="Id of the server that the role is on.")
    role: Mapped[str] = mapped_column(Text, comment="Id of the role.")
    permission_level: Mapped[str | None] = mapped_column(
        Text, comment="guest, user, admin or owner, on this server only; NULL: leaves it."
    )
    token_budget: Mapped[int | None] = mapped_column(
        BigInteger, comment="Tokens in 30 days, if that is more than the person's own; NULL: leaves it."
    )


class MemberRoles(Row, Base):
    """The roles that an account had when it last wrote on a server."""

    __tablename__ = "member_roles"
    __table_args__ = (
        UniqueConstraint("platform", "platform_user_id", "server"),
        {"comment": "Roles of accounts on servers, as last seen there; the program keeps them."},
    )

    platform: Mapped[str] = mapped_column(Text, comment="The platform.")
    platform_user_id: Mapped[str] = mapped_column(Text, comment="The account.")
    server: Mapped[str] = mapped_column(Text, comment="The server.")
    user_id: Mapped[int] = mapped_column(
        ForeignKey("users.id", ondelete="CASCADE"), index=True, comment="The account's user."
    )
    roles: Mapped[list[Any]] = mapped_column(JSONB, server_default=text("'[]'"), comment="Ids of the roles.")
