"""The statements that find users, personas and conversations; those of a turn are found by one of them, for speed.

They are built once, because building them takes longer than running them.
"""

from typing import cast

from sqlalchemy import (
    BigInteger,
    Boolean,
    FromClause,
    Label,
    Table,
    Text,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.dml import ReturningInsert

from agent.people.agents import LISTED
from agent.people.pauses import is_server_paused
from agent.people.rights import PERMISSION
from agent.people.skills import STORED
from shared.models import Conversation, MemberRoles, Persona, PersonaVersion, User, UserPlatformLink

# Whether roles have given the person something, which they may have lost since.
HAS_ROLES = or_(
    User.budget_from_roles.is_not(None),
    exists().where(MemberRoles.user_id == User.id, MemberRoles.roles != literal_column("'[]'::jsonb")),
)
USER = select(
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
USER = USER.where(
    UserPlatformLink.platform == bindparam("sender_platform"),
    UserPlatformLink.platform_user_id == bindparam("platform_user_id"),
)

PERSONA_COLUMNS = (
    Persona.id,
    Persona.name,
    Persona.system_prompt,
    Persona.allowed_modules,
    Persona.default_model,
    Persona.max_tokens_per_request,
    Persona.max_temperature,
    Persona.max_iterations,
    Persona.loop_mode,
    Persona.skills,
    STORED,
    select(PersonaVersion.id)
    .where(PersonaVersion.persona_id == Persona.id)
    .order_by(PersonaVersion.version.desc())
    .limit(1)
    .scalar_subquery()
    .label("version_id"),
)
HERE = and_(
    Persona.platform == bindparam("platform"),
    or_(Persona.platform_server_id.is_(None), Persona.platform_server_id == bindparam("server")),
    or_(Persona.platform_channel_id.is_(None), Persona.platform_channel_id == bindparam("channel")),
)
# Of the personas for a place, that of the channel counts before that of the server, and so on.
CHANNEL, SERVER, PLATFORM, DEFAULT = 3, 2, 1, 0
CLOSENESS = case(
    (and_(HERE, Persona.platform_channel_id.is_not(None)), CHANNEL),
    (and_(HERE, Persona.platform_server_id.is_not(None)), SERVER),
    (HERE, PLATFORM),
    else_=DEFAULT,
)
BY_ID = select(*PERSONA_COLUMNS, literal(None).label("closeness")).where(Persona.id == bindparam("id"))
CLOSEST = (
    select(*PERSONA_COLUMNS, CLOSENESS.label("closeness"))
    .where(or_(HERE, Persona.is_default))
    .order_by(CLOSENESS.desc(), Persona.id)
    .limit(1)
)

CONVERSATION_COLUMNS = (
    Conversation.platform,
    Conversation.platform_server_id,
    Conversation.platform_channel_id,
    Conversation.platform_thread_id,
    Conversation.is_direct,
    Conversation.user_id,
    Conversation.persona_id,
    Conversation.summary_due_at,
)

PLACE = tuple(
    bindparam(name, type_=column.type)
    for name, column in zip(
        ("platform", "server", "channel", "thread", "is_direct"), CONVERSATION_COLUMNS, strict=False
    )
)

# When a worker looks whether the conversation has paused; never for requests that are not remembered.
NEXT_PAUSE = case(
    (bindparam("is_remembered", True, type_=Boolean), func.now() + literal_column("interval '30 minutes'"))
)

# The table instead of the class, because the ORM would turn the returned columns into objects.
TABLE = cast(Table, Conversation.__table__)


def upsert(user: FromClause, persona: FromClause) -> ReturningInsert[int, str | None, int, int, int | None, bool]:
    """Return the upsert of the conversation of a place, with this user and this persona."""
    statement = postgresql.insert(TABLE).from_select(
        CONVERSATION_COLUMNS,
        select(*PLACE, user.c.id, persona.c.id, NEXT_PAUSE).select_from(user.outerjoin(persona, true())),
    )
    touched = {
        "last_active_at": func.now(),
        "persona_id": statement.excluded.persona_id,
        "is_summarized": False,
        # Kept while it is set, so that the turns of a lively conversation need not change the index.
        "summary_due_at": func.coalesce(TABLE.c.summary_due_at, statement.excluded.summary_due_at),
    }
    return statement.on_conflict_do_update(constraint="uq_conversations_place", set_=touched).returning(
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


RESOLVE_CONVERSATION = upsert(_given("user"), _given("persona"))

IDENTITY = USER.cte("identity")

PERSONA = CLOSEST.cte("persona")

CONVERSATION = upsert(IDENTITY, PERSONA).cte("conversation")

# Does not wait for the disk: the begin of the turn, which follows, flushes the conversation and the drawn turn id too.
NOT_SYNCED: Label[str] = literal_column("set_config('synchronous_commit', 'off', true)").label("not_synced")

# Whoever has memories of their own is recalled those of the place with them.
PLACE_HAS_MEMORIES: Label[bool] = case(
    (or_(IDENTITY.c.has_memories, PLACE[4]), False),
    else_=func.parley_place_has_memories(*PLACE[:3], bindparam("memory_thread", type_=Text), type_=Boolean),
).label("place_has_memories")

FIND_PARTICIPANTS = select(
    *[part.label(f"{cte.name}_{part.name}") for cte in (IDENTITY, PERSONA, CONVERSATION) for part in cte.c],
    PLACE_HAS_MEMORIES,
    is_server_paused(PLACE[0], PLACE[1]),
    literal_column("nextval('turns_id_seq')").label("turn_id"),
    literal_column(LISTED).label("agents"),
    NOT_SYNCED,
).select_from(IDENTITY.outerjoin(PERSONA, true()).outerjoin(CONVERSATION, true()))
