"""Where it was written: one conversation per place."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.messages import Place

RESOLVE = text("""
INSERT INTO conversations (platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct,
                           user_id, persona_id)
VALUES (:platform, :server, :channel, :thread, :is_direct, :user_id, :persona_id)
ON CONFLICT ON CONSTRAINT uq_conversations_place
DO UPDATE SET last_active_at = now(), persona_id = excluded.persona_id
RETURNING id, summary, window_turn_id
""")


@dataclass(frozen=True, slots=True)
class ResolvedConversation:
    """A conversation as one turn needs it."""

    id: int
    place: Place
    summary: str | None
    window_turn_id: int


async def resolve_conversation(
    session: AsyncSession, user_id: int, persona_id: int | None, place: Place
) -> ResolvedConversation:
    """Return the conversation of a place, made by the first message; its last activity is now."""
    given = {
        "platform": place.platform,
        "server": place.server,
        "channel": place.channel,
        "thread": place.thread,
        "is_direct": place.is_direct,
        "user_id": user_id,
        "persona_id": persona_id,
    }
    row = (await session.execute(RESOLVE, given)).one()
    return ResolvedConversation(row.id, place, row.summary, row.window_turn_id)
