"""Participants: who wrote, who answers and in which conversation, in one statement, because every turn needs it."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Label, literal_column, select, true

from agent.people.agents import LISTED, ListedAgent, to_agents
from agent.people.conversations import ResolvedConversation, to_conversation, upsert
from agent.people.personas import CLOSEST, ResolvedPersona, to_persona
from agent.people.roles import with_roles
from agent.people.users import FIND, ResolvedUser, note_username, resolve_user, to_user
from shared.db.database import Database
from shared.db.driver import Connection, Session
from shared.messages import IncomingMessage
from shared.settings import Settings

IDENTITY = FIND.cte("identity")
PERSONA = CLOSEST.cte("persona")
CONVERSATION = upsert(IDENTITY, PERSONA).cte("conversation")
# The turn need not wait until the conversation's new time stamp is on the disk.
NOT_SYNCED: Label[str] = literal_column("set_config('synchronous_commit', 'off', true)").label("not_synced")
FIND_PARTICIPANTS = select(
    *[part.label(f"{each.name}_{part.name}") for each in (IDENTITY, PERSONA, CONVERSATION) for part in each.c],
    literal_column("nextval('turns_id_seq')").label("turn_id"),
    literal_column(LISTED).label("agents"),
    NOT_SYNCED,
).select_from(IDENTITY.outerjoin(PERSONA, true()).outerjoin(CONVERSATION, true()))


@dataclass(frozen=True, slots=True)
class Participants:
    """Who takes part in a turn, and where; a new turn gets the id `turn_id`.

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
    """Return the user, the persona and the conversation of a message; a new user or conversation is created."""
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
    user = await with_roles(session, user, sender=sender, place=place, platform_context=message.platform_context)
    persona = _Part(row, "persona") if row.persona_id is not None else None
    return Participants(
        user=user,
        persona=to_persona(persona, user.permission, settings),
        conversation=to_conversation(_Part(row, "conversation"), place),
        turn_id=row.turn_id,
        agents=to_agents(row.agents),
    )


class _Part:
    # The columns of one of the three, by their names without the prefix.
    def __init__(self, row: Any, name: str) -> None:
        self._row, self._name = row, name

    def __getattr__(self, column: str) -> Any:
        return getattr(self._row, f"{self._name}_{column}")
