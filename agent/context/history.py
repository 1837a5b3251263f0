"""Loads the recent history of a conversation, limited to a window of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import bindparam, select, text

from agent.journal.steps import STEP_COLUMNS, TOOL_COLUMNS, Step, to_step
from agent.people.users import ResolvedConversation
from shared.db.driver import Session
from shared.models import Message

HISTORY_TOKENS = 6000


# Dropping a single message would invalidate the cached prompt prefix in every turn; dropping blocks rarely does.
BLOCK_MESSAGES = 10


HISTORY = (
    select(Message.turn_id, Message.user_id, *STEP_COLUMNS, *TOOL_COLUMNS)
    .where(
        Message.conversation_id == bindparam("conversation_id"),
        Message.turn_id >= bindparam("first"),
        Message.turn_id < bindparam("before"),
    )
    .order_by(Message.turn_id, Message.seq)
)


OWN_HISTORY = HISTORY.where(Message.user_id == bindparam("user_id"))


MOVE_WINDOW = text("""
UPDATE conversations SET window_turn_id = :begins, is_summarized = false WHERE id = :conversation_id
""")


@dataclass(frozen=True, slots=True)
class PastStep:
    """One entry of the history: a step with the id of its turn and the user of that turn."""

    turn_id: int
    user_id: int | None
    step: Step


async def load_history(
    session: Session, conversation: ResolvedConversation, *, user_id: int, turn_id: int
) -> list[PastStep]:
    """Return the steps in the conversation's window; moves the window forward when they exceed `HISTORY_TOKENS`.

    In a direct conversation only the user's own turns are returned, even if other users have written there.
    """
    query = OWN_HISTORY if conversation.place.is_direct else HISTORY
    given = {"conversation_id": conversation.id, "first": conversation.window_turn_id, "before": turn_id}
    given |= {"user_id": user_id} if query is OWN_HISTORY else {}
    split = 2 + len(STEP_COLUMNS)
    rows = (await session.execute(query, given)).all()
    past = [PastStep(row[0], row[1], to_step(row[2:split], row[split:])) for row in rows]
    kept = drop_blocks(past)
    if len(kept) < len(past):
        begins = kept[0].turn_id if kept else turn_id
        await session.execute(MOVE_WINDOW, {"conversation_id": conversation.id, "begins": begins})
    return kept


def drop_blocks(past: Sequence[PastStep]) -> list[PastStep]:
    """Return the newest turns that fit `HISTORY_TOKENS`; drops whole turns, at least `BLOCK_MESSAGES` steps."""
    turns = [list(group) for _, group in groupby(past, key=lambda each: each.turn_id)]
    total = sum(each.step.token_count for each in past)
    dropped = 0
    if total <= HISTORY_TOKENS:
        return list(past)
    while turns and (total > HISTORY_TOKENS or dropped < BLOCK_MESSAGES):
        oldest = turns.pop(0)
        dropped += len(oldest)
        total -= sum(each.step.token_count for each in oldest)
    return [each for turn in turns for each in turn]
