"""What a person's roles on a server grant, while they last: a permission there, a budget everywhere."""

from dataclasses import replace

from sqlalchemy import text

from agent.people.users import ResolvedUser
from shared.db.driver import Session
from shared.messages import Place, PlatformContext, Sender
from shared.permissions import Permission

# Roles on other servers count as they were last seen there. The budget is stored, because every model call reads it;
# each message updates it.
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
    """Return the user with what the roles grant here: the highest permission wins."""
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
