"""Finds the message that a message replies to, however old it is; not what was deleted, forgotten or erased."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from agent.journal.steps import PastStep
from agent.memory.turns import DELETED
from agent.people.participants import ResolvedConversation
from shared.db.database import Database
from shared.messages import IncomingMessage
from shared.text import cut

# Of a message that the history shows, only so much that it is recognised.
MOST_CHARS, SHOWN_CHARS = 600, 150

# In this order: what a person wrote to the agent, what is left of it in the transcript, an answer of the agent's, and
# what others wrote before they spoke to the agent. Rows of the inbox and the outbox go after some time.
FIND = text("""
SELECT found.*, EXISTS (SELECT FROM forgotten_turns WHERE forgotten_turns.turn_id = found.turn_id) AS is_forgotten
FROM (
    SELECT 1 AS place, turn_id, platform_username AS speaker, content, platform_user_id = :account AS is_own,
           false AS is_from_bot
    FROM inbox WHERE platform = :platform AND platform_event_id = :event_id AND place_key = :place_key
    UNION ALL
    SELECT 2, turn_id, speaker, content, user_id = :user_id, false FROM messages
    WHERE conversation_id = :conversation_id AND role = 'user'
      AND platform_message_id = regexp_replace(:event_id, '^.*:', '')
    UNION ALL
    SELECT 3, turns.id, NULL, answer.content, false, true
    FROM turns LEFT JOIN outbox ON outbox.turn_id = turns.id CROSS JOIN LATERAL (
        SELECT content FROM messages WHERE messages.turn_id = turns.id AND role = 'assistant' ORDER BY seq DESC LIMIT 1
    ) AS answer
    WHERE turns.conversation_id = :conversation_id AND turns.parent_turn_id IS NULL
      AND regexp_replace(:event_id, '^.*:', '') IN (turns.live_message_id, outbox.platform_message_id)
    UNION ALL
    SELECT 4, inbox.turn_id, quoted ->> 'speaker', quoted ->> 'text', false, false
    FROM inbox, jsonb_array_elements(platform_context -> 'earlier') AS quoted
    WHERE platform = :platform AND place_key = :place_key AND (platform_context -> 'earlier') IS NOT NULL
      AND (platform_context -> 'earlier')
          @> jsonb_build_array(jsonb_build_object('message_id', CAST(:event_id AS text)))
      AND quoted ->> 'message_id' = :event_id
) AS found ORDER BY place LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class RepliedTo:
    """The message that is replied to. `speaker` is None for the agent's own; `is_own`: the same person wrote both."""

    speaker: str | None
    text: str
    is_own: bool
    turn_id: int | None


async def find_replied_to(
    database: Database,
    message: IncomingMessage,
    history: Sequence[PastStep],
    *,
    user_id: int,
    conversation: ResolvedConversation,
) -> RepliedTo | None:
    """Return the message that this one replies to; None without one, or when its text may not be shown.

    A thread's first message is left out while the history shows it.
    """
    place = message.place
    is_thread = message.replied_to == f"{place.channel}:{place.thread}"
    if message.replied_to is None or (is_thread and not conversation.window_turn_id):
        return None
    parameters = {
        "platform": place.platform,
        "place_key": place.key,
        "event_id": message.replied_to,
        "account": message.sender.platform_user_id,
        "user_id": user_id,
        "conversation_id": conversation.id,
    }
    async with database.statement() as session:
        row = (await session.execute(FIND, parameters)).one_or_none()
    if row is None or row.is_forgotten or row.content in ("", DELETED):
        return None
    # What was quoted beside a shown message is shown with it.
    is_shown = row.turn_id is not None and bool(history) and row.turn_id >= history[0].turn_id
    is_shown = is_shown or any(line.message_id == message.replied_to for line in message.platform_context.earlier)
    if is_shown and is_thread:
        return None
    content = cut(row.content, SHOWN_CHARS if is_shown else MOST_CHARS)
    speaker = None if row.is_from_bot else row.speaker or "somebody"
    return RepliedTo(speaker, content, is_own=bool(row.is_own), turn_id=row.turn_id)
