"""Finds the message that a message replies to, however old it is; not what was deleted, forgotten or erased."""

from collections.abc import Sequence

from msgspec import Struct

from agent.journal.steps import PastStep
from agent.memory.deletion import DELETED
from agent.people.participants import ResolvedConversation
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.messages import IncomingMessage
from shared.text import cut

# Of a message that the history shows, only so much that it is recognised.
MOST_CHARS, SHOWN_CHARS = 600, 150

statements = load_statements(__file__)


class RepliedTo(Struct, frozen=True):
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
        row = (await session.execute(statements.find_message_replied_to, parameters)).one_or_none()
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
