"""Users: finds or creates the user of an identity, and applies the grants of platform roles."""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import bindparam, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.db.driver import Session
from shared.messages import Place, PlatformContext, Sender
from shared.models import User, UserPlatformLink
from shared.permissions import Permission
from shared.tools import Caller

FIND = select(
    User.id,
    User.permission_level,
    User.display_name,
    User.time_zone,
    User.week_start,
    User.has_memories,
    UserPlatformLink.id.label("link_id"),
    UserPlatformLink.platform_username,
).join(UserPlatformLink, UserPlatformLink.user_id == User.id)
FIND = FIND.where(
    UserPlatformLink.platform == bindparam("sender_platform"),
    UserPlatformLink.platform_user_id == bindparam("platform_user_id"),
)

RENAME = text("UPDATE user_platform_links SET platform_username = :username WHERE id = :link_id")


@dataclass(frozen=True, slots=True)
class ResolvedUser:
    """The fields of a user that a turn needs."""

    id: int
    permission: Permission
    name: str
    time_zone: str
    week_start: str
    has_memories: bool = False

    def as_caller(self) -> Caller:
        """Return the fields of the user that tools may see."""
        return Caller(
            id=self.id,
            permission=self.permission,
            name=self.name,
            time_zone=self.time_zone,
            week_start=self.week_start,
        )


async def find_user(session: Session, sender: Sender) -> ResolvedUser | None:
    """Return the user of this identity and store a changed username; None if the identity is unknown."""
    given = {"sender_platform": sender.platform, "platform_user_id": sender.platform_user_id}
    row = (await session.execute(FIND, given)).one_or_none()
    if row is None:
        return None
    await note_username(session, row, sender)
    return to_user(row, sender)


def to_user(row: Any, sender: Sender) -> ResolvedUser:
    """Return the user from a row of `FIND`."""
    name = row.display_name or sender.username or row.platform_username or sender.platform_user_id
    permission = Permission.from_label(row.permission_level)
    return ResolvedUser(
        id=row.id,
        permission=permission,
        name=name,
        time_zone=row.time_zone,
        week_start=row.week_start,
        has_memories=row.has_memories,
    )


async def note_username(session: Session, row: Any, sender: Sender) -> None:
    """Store the person's current username on the platform if it has changed."""
    if sender.username and sender.username != row.platform_username:
        await session.execute(RENAME, {"link_id": row.link_id, "username": sender.username})


async def resolve_user(session: AsyncSession, sender: Sender, guest_budget: int) -> ResolvedUser:
    """Return the user of this identity; a new user is created as a guest with `guest_budget` tokens a month."""
    user = await find_user(session, sender)
    if user is not None:
        return user
    # Several first messages may arrive at once: with the lock, one of them creates the user and the others find it.
    await session.execute(
        select(func.pg_advisory_xact_lock(func.hashtextextended(f"{sender.platform}:{sender.platform_user_id}", 0)))
    )
    user = await find_user(session, sender)
    if user is not None:
        return user
    made = await session.execute(insert(User).values(token_budget_monthly=guest_budget).returning(User.id))
    link = {
        "user_id": made.scalar_one(),
        "platform": sender.platform,
        "platform_user_id": sender.platform_user_id,
        "platform_username": sender.username,
    }
    await session.execute(insert(UserPlatformLink).values(link))
    user = await find_user(session, sender)
    if user is None:
        raise RuntimeError("a user that was just created is missing")
    return user


# Stores the roles on this server; for other servers the roles last seen there count. The resulting budget is stored
# with the user, because every model call reads it.
GRANTS = text("""
WITH kept AS (
    INSERT INTO member_roles (platform, platform_user_id, server, user_id, roles)
    VALUES (:platform, :platform_user_id, :server, :user_id, to_jsonb(CAST(:roles AS text[])))
    ON CONFLICT (platform, platform_user_id, server) DO UPDATE SET roles = excluded.roles, user_id = excluded.user_id
    WHERE member_roles.roles <> excluded.roles OR member_roles.user_id <> excluded.user_id
), here AS (
    SELECT permission_level, token_budget FROM role_grants
    WHERE platform = :platform AND server = :server AND role = ANY(CAST(:roles AS text[]))
), elsewhere AS (
    SELECT token_budget FROM role_grants JOIN member_roles USING (platform, server)
    WHERE member_roles.user_id = :user_id AND jsonb_exists(member_roles.roles, role_grants.role)
      AND (member_roles.platform, member_roles.platform_user_id, server) <> (:platform, :platform_user_id, :server)
), best AS (
    SELECT max(token_budget) AS budget FROM (SELECT token_budget FROM here UNION ALL SELECT * FROM elsewhere) AS given
), changed AS (
    UPDATE users SET budget_from_roles = best.budget FROM best
    WHERE users.id = :user_id AND budget_from_roles IS DISTINCT FROM best.budget
)
SELECT permission_level FROM here WHERE permission_level IS NOT NULL
""")


async def with_roles(
    session: Session, user: ResolvedUser, *, sender: Sender, place: Place, platform_context: PlatformContext
) -> ResolvedUser:
    """Return the user with the highest permission that the roles on this server grant; also stores their budget."""
    if platform_context.role_ids is None or place.server is None:
        return user
    given = {
        "platform": sender.platform,
        "platform_user_id": sender.platform_user_id,
        "server": place.server,
        "user_id": user.id,
        "roles": list(platform_context.role_ids),
    }
    rows = (await session.execute(GRANTS, given)).all()
    granted = [Permission.from_label(row.permission_level) for row in rows]
    return replace(user, permission=max([user.permission, *granted]))
