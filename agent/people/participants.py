"""Participants: the user, persona and conversation of a message, found in one statement for speed."""

from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import BigInteger, FromClause, Label, Table, bindparam, func, literal_column, select, true
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.dml import ReturningInsert

from agent.people.agents import LISTED, ListedAgent, to_agents
from agent.people.personas import CLOSEST, ResolvedPersona, to_persona
from agent.people.users import FIND, ResolvedUser, note_username, resolve_user, to_user, with_roles
from shared.db.database import Database
from shared.db.driver import Connection, Session
from shared.messages import IncomingMessage, Place
from shared.models import Conversation
from shared.settings import Settings

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


# The table instead of the class, because the ORM would turn the returned columns into objects.
TABLE = cast(Table, Conversation.__table__)


def upsert(user: FromClause, persona: FromClause) -> ReturningInsert[int, str | None, int]:
    """Return the upsert of the conversation of a place, with this user and this persona."""
    made = insert(TABLE).from_select(
        COLUMNS, select(*PLACE, user.c.id, persona.c.id).select_from(user.outerjoin(persona, true()))
    )
    touched = {"last_active_at": func.now(), "persona_id": made.excluded.persona_id}
    return made.on_conflict_do_update(constraint="uq_conversations_place", set_=touched).returning(
        Conversation.id, Conversation.summary, Conversation.window_turn_id
    )


def _given(name: str) -> FromClause:
    return select(bindparam(f"{name}_id", type_=BigInteger).label("id")).subquery(name)


RESOLVE = upsert(_given("user"), _given("persona"))


@dataclass(frozen=True, slots=True)
class ResolvedConversation:
    """The fields of a conversation that a turn needs."""

    id: int
    place: Place
    summary: str | None
    window_turn_id: int


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
    return to_conversation((await session.execute(RESOLVE, given)).one(), place)


def to_conversation(row: Any, place: Place) -> ResolvedConversation:
    """Return the conversation from a row of `upsert`."""
    return ResolvedConversation(row.id, place, summary=row.summary, window_turn_id=row.window_turn_id)


IDENTITY = FIND.cte("identity")
PERSONA = CLOSEST.cte("persona")
CONVERSATION = upsert(IDENTITY, PERSONA).cte("conversation")
# Does not wait for the disk: the begin of the turn, which follows, flushes the conversation and the drawn turn id too.
NOT_SYNCED: Label[str] = literal_column("set_config('synchronous_commit', 'off', true)").label("not_synced")
FIND_PARTICIPANTS = select(
    *[part.label(f"{each.name}_{part.name}") for each in (IDENTITY, PERSONA, CONVERSATION) for part in each.c],
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
    }
    row = (await session.execute(FIND_PARTICIPANTS, given)).one_or_none()
    if row is None:
        return None
    await note_username(session, _Part(row, "identity"), sender)
    user = to_user(_Part(row, "identity"), sender)
    if message.platform_context.role_ids is not None:
        user = await with_roles(session, user, sender=sender, place=place, platform_context=message.platform_context)
    persona = _Part(row, "persona") if row.persona_id is not None else None
    return Participants(
        user=user,
        persona=to_persona(persona, user.permission, settings),
        conversation=to_conversation(_Part(row, "conversation"), place),
        turn_id=row.turn_id,
        agents=to_agents(row.agents) if row.agents else (),
    )


class _Part:
    # One part of the joined row (identity, persona or conversation); its columns have the part's name as prefix.
    def __init__(self, row: Any, name: str) -> None:
        self._row, self._name = row, name

    def __getattr__(self, column: str) -> Any:
        return getattr(self._row, f"{self._name}_{column}")
