"""Conversations: one per place."""

from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import BigInteger, FromClause, Table, bindparam, func, select, true
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.dml import ReturningInsert

from shared.db.driver import Session
from shared.messages import Place
from shared.models import Conversation

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


# The table, not the class: the ORM would map the columns of a statement on a class.
TABLE = cast(Table, Conversation.__table__)


def upsert(user: FromClause, persona: FromClause) -> ReturningInsert[int, str | None, int]:
    """Return the statement that finds or creates the conversation of a place, for this user and this persona."""
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
    """A conversation as one turn needs it."""

    id: int
    place: Place
    summary: str | None
    window_turn_id: int


async def resolve_conversation(
    session: Session, user_id: int, persona_id: int | None, place: Place
) -> ResolvedConversation:
    """Return the conversation of a place, created by the first message; its last activity is now."""
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
    """Return the conversation of a row of `upsert`."""
    return ResolvedConversation(row.id, place, summary=row.summary, window_turn_id=row.window_turn_id)
