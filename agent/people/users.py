"""Finds or creates the user of an identity with the grants of platform roles, and the participants of a message.

The user, persona and conversation of a message are found in one statement, for speed.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    Boolean,
    FromClause,
    Label,
    Table,
    Text,
    bindparam,
    case,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.dml import ReturningInsert

from agent.people.agents import LISTED, ListedAgent, to_agents
from agent.people.pauses import is_server_paused
from agent.people.personas import CLOSEST, ResolvedPersona, to_persona
from agent.people.rights import PERMISSION
from shared.db.database import Database
from shared.db.driver import Connection, Session
from shared.memory.visibility import restricted_thread
from shared.messages import IncomingMessage, Place, PlatformContext, Sender
from shared.models import Conversation, MemberRoles, User, UserPlatformLink
from shared.permissions import Permission
from shared.settings import Settings
from shared.tools import Caller

# Whether roles have given the person something, which they may have lost since.
HAS_ROLES = or_(
    User.budget_from_roles.is_not(None),
    exists().where(MemberRoles.user_id == User.id, MemberRoles.roles != literal_column("'[]'::jsonb")),
)
FIND = select(
    User.id,
    PERMISSION.label("permission_level"),
    User.paused_at.is_not(None).label("is_paused"),
    User.display_name,
    User.time_zone,
    User.week_start,
    User.has_memories,
    UserPlatformLink.id.label("link_id"),
    UserPlatformLink.platform_username,
    HAS_ROLES.label("has_roles"),
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
    is_paused: bool = False

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
    # The database names people as their account is called, which may have been renamed since.
    chosen = row.display_name if row.display_name != row.platform_username else None
    name = chosen or sender.username or row.platform_username or sender.platform_user_id
    permission = Permission.from_label(row.permission_level)
    return ResolvedUser(
        id=row.id,
        permission=permission,
        name=name,
        time_zone=row.time_zone,
        week_start=row.week_start,
        has_memories=row.has_memories,
        is_paused=row.is_paused,
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


COLUMNS = (
    Conversation.platform,
    Conversation.platform_server_id,
    Conversation.platform_channel_id,
    Conversation.platform_thread_id,
    Conversation.is_direct,
    Conversation.user_id,
    Conversation.persona_id,
)

PLACE = tuple(
    bindparam(name, type_=column.type)
    for name, column in zip(("platform", "server", "channel", "thread", "is_direct"), COLUMNS, strict=False)
)

# When a worker looks whether the conversation has paused.
NEXT_PAUSE = func.now() + literal_column("interval '30 minutes'")

# The table instead of the class, because the ORM would turn the returned columns into objects.
TABLE = cast(Table, Conversation.__table__)


def upsert(user: FromClause, persona: FromClause) -> ReturningInsert[int, str | None, int, int, int | None, bool]:
    """Return the upsert of the conversation of a place, with this user and this persona."""
    made = postgresql.insert(TABLE).from_select(
        COLUMNS, select(*PLACE, user.c.id, persona.c.id).select_from(user.outerjoin(persona, true()))
    )
    touched = {
        "last_active_at": func.now(),
        "persona_id": made.excluded.persona_id,
        "is_summarized": False,
        # Kept while it is set, so that the turns of a lively conversation need not change the index.
        "summary_due_at": func.coalesce(TABLE.c.summary_due_at, NEXT_PAUSE),
    }
    return made.on_conflict_do_update(constraint="uq_conversations_place", set_=touched).returning(
        Conversation.id,
        Conversation.summary,
        Conversation.window_turn_id,
        Conversation.summarized_turn_id,
        Conversation.user_id.label("owner_id"),
        # A row that was there before is locked by its update.
        literal_column("xmax = 0").label("is_new"),
    )


def _given(name: str) -> FromClause:
    return select(bindparam(f"{name}_id", type_=BigInteger).label("id")).subquery(name)


RESOLVE = upsert(_given("user"), _given("persona"))


@dataclass(frozen=True, slots=True)
class ResolvedConversation:
    """The fields of a conversation that a turn needs.

    `is_new`: it was made just now. `summary` holds what was said up to `summarized_turn_id`. That of a direct
    conversation is shown only to the person whose turns it holds. `has_memories` is set for a person without memories
    of their own.
    """

    id: int
    place: Place
    summary: str | None
    window_turn_id: int
    summarized_turn_id: int = 0
    is_new: bool = False
    has_memories: bool = False


async def resolve_conversation(
    session: Session, user_id: int, persona_id: int | None, place: Place
) -> ResolvedConversation:
    """Return the conversation of a place, created if there is none; sets its last activity to now."""
    given = {
        "platform": place.platform,
        "server": place.server,
        "channel": place.channel,
        "thread": place.thread,
        "is_direct": place.is_direct,
        "user_id": user_id,
        "persona_id": persona_id,
    }
    return to_conversation((await session.execute(RESOLVE, given)).one(), place, user_id)


def to_conversation(row: Any, place: Place, user_id: int) -> ResolvedConversation:
    """Return the conversation from a row of `upsert`, as this user may see it."""
    if place.is_direct and row.owner_id != user_id:
        return ResolvedConversation(row.id, place, summary=None, window_turn_id=row.window_turn_id)
    return ResolvedConversation(
        row.id,
        place,
        summary=row.summary,
        window_turn_id=row.window_turn_id,
        summarized_turn_id=row.summarized_turn_id,
        is_new=row.is_new,
    )


IDENTITY = FIND.cte("identity")

PERSONA = CLOSEST.cte("persona")

CONVERSATION = upsert(IDENTITY, PERSONA).cte("conversation")

# Does not wait for the disk: the begin of the turn, which follows, flushes the conversation and the drawn turn id too.
NOT_SYNCED: Label[str] = literal_column("set_config('synchronous_commit', 'off', true)").label("not_synced")

# Whoever has memories of their own is recalled those of the place with them.
PLACE_HAS_MEMORIES: Label[bool] = case(
    (or_(IDENTITY.c.has_memories, PLACE[4]), False),
    else_=func.parley_place_has_memories_v1(*PLACE[:3], bindparam("memory_thread", type_=Text), type_=Boolean),
).label("place_has_memories")

FIND_PARTICIPANTS = select(
    *[part.label(f"{each.name}_{part.name}") for each in (IDENTITY, PERSONA, CONVERSATION) for part in each.c],
    PLACE_HAS_MEMORIES,
    is_server_paused(PLACE[0], PLACE[1]),
    literal_column("nextval('turns_id_seq')").label("turn_id"),
    literal_column(LISTED).label("agents"),
    NOT_SYNCED,
).select_from(IDENTITY.outerjoin(PERSONA, true()).outerjoin(CONVERSATION, true()))


@dataclass(frozen=True, slots=True)
class Participants:
    """The participants of a turn; `turn_id` is the id for the turn if it is a new one.

    `agents` are the enabled agents of this installation.
    """

    user: ResolvedUser
    persona: ResolvedPersona
    conversation: ResolvedConversation
    turn_id: int
    agents: tuple[ListedAgent, ...]
    is_server_paused: bool = False

    @property
    def is_paused(self) -> bool:
        """Return whether an admin has paused the person or the server."""
        return self.user.is_paused or self.is_server_paused

    @property
    def have_memories(self) -> bool:
        """Return whether anything is remembered of the person or of the place; else a search would be for nothing."""
        return self.user.has_memories or self.conversation.has_memories


async def resolve_participants(
    session: Connection, message: IncomingMessage, *, database: Database, settings: Settings
) -> Participants:
    """Return the participants of a message; the user and the conversation are created if they do not exist."""
    participants = await _find_participants(session, message, settings)
    if participants is not None:
        return participants
    async with database.transaction() as creating:
        await resolve_user(creating, message.sender, settings.default_guest_token_budget)
    participants = await _find_participants(session, message, settings)
    if participants is None:
        raise RuntimeError("a user that was just created is missing")
    return participants


async def _find_participants(session: Session, message: IncomingMessage, settings: Settings) -> Participants | None:
    sender, place = message.sender, message.place
    given = {
        "sender_platform": sender.platform,
        "platform_user_id": sender.platform_user_id,
        "platform": place.platform,
        "server": place.server,
        "channel": place.channel,
        "thread": place.thread,
        "is_direct": place.is_direct,
        "memory_thread": restricted_thread(place),
    }
    row = (await session.execute(FIND_PARTICIPANTS, given)).one_or_none()
    if row is None:
        return None
    await note_username(session, _Part(row, "identity"), sender)
    user = to_user(_Part(row, "identity"), sender)
    # Most people never have a role that counts: they need no second statement.
    if message.platform_context.role_ids or row.identity_has_roles:
        user = await with_roles(session, user, sender=sender, place=place, platform_context=message.platform_context)
    persona = _Part(row, "persona") if row.persona_id is not None else None
    return Participants(
        user=user,
        persona=to_persona(persona, user.permission, settings),
        conversation=replace(
            to_conversation(_Part(row, "conversation"), place, user.id), has_memories=row.place_has_memories
        ),
        turn_id=row.turn_id,
        agents=to_agents(row.agents) if row.agents else (),
        is_server_paused=row.is_server_paused,
    )


class _Part:
    # One part of the joined row (identity, persona or conversation); its columns have the part's name as prefix.
    def __init__(self, row: Any, name: str) -> None:
        self._row, self._name = row, name

    def __getattr__(self, column: str) -> Any:
        return getattr(self._row, f"{self._name}_{column}")
