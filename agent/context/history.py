"""Loads the recent history of a conversation, within a window of tokens.

What the summary holds leaves the window in blocks. What it does not hold yet stays, until the model's own context
window is full; meanwhile a summary is asked for.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from sqlalchemy import bindparam, select, text

from agent.context.images import find_named
from agent.journal.steps import STEP_COLUMNS, TOOL_COLUMNS, UNREAD, Step, to_step
from agent.llm.tokens import IMAGE_TOKENS, count_tokens
from agent.people.participants import ResolvedConversation
from shared.db.driver import Session
from shared.log import get_logger
from shared.models import Message
from shared.text import cut

# The context window of a model that litellm does not know.
UNKNOWN_WINDOW = 32_000
# Room for the memories, the message and what the text of a prompt is wrapped in.
OTHER_TOKENS = 2000
# After a drop half of the window is free: the beginning of the prompt stays the same until as much was said again.
KEPT_SHARE = 0.5
# Of the result of a tool in a past turn; the model has answered with it, and may call the tool again.
PAST_RESULT_CHARS = 1500
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


MOVE_WINDOW = text("UPDATE conversations SET window_turn_id = :begins WHERE id = :conversation_id")
# While a failed attempt waits to be repeated, nobody asks again.
ASK_FOR_SUMMARY = text("""
UPDATE conversations SET summary_is_urgent = true,
    summary_due_at = CASE WHEN summary_failures = 0 THEN now() ELSE coalesce(summary_due_at, now()) END
WHERE id = :conversation_id AND NOT summary_is_urgent
""")

log = get_logger()


@dataclass(frozen=True, slots=True)
class PastStep:
    """One entry of the history: a step with the id of its turn and the user of that turn."""

    turn_id: int
    user_id: int | None
    step: Step


@dataclass(frozen=True, slots=True)
class Window:
    """How much history a prompt may hold, in tokens.

    From `wanted` on, what the summary holds is dropped. `most` is what the model takes in at all.
    """

    wanted: int
    most: int

    @classmethod
    def of(cls, model_window: int | None, reserved: int, wanted: int) -> "Window":
        """Return the window of a model, where `reserved` tokens are needed for the answer, the tools and so on."""
        most = max(1, (model_window or UNKNOWN_WINDOW) - reserved - OTHER_TOKENS)
        return cls(min(wanted, int(most * 0.75)), most)


async def load_history(
    session: Session, conversation: ResolvedConversation, window: Window, *, user_id: int, turn_id: int
) -> list[PastStep]:
    """Return the steps since the beginning of the window, which moves on when they exceed it.

    In a direct conversation only the user's own turns are returned, even if other users have written there.
    """
    if conversation.is_new:
        return []
    past = await list_history(session, conversation, first=conversation.window_turn_id, before=turn_id, user_id=user_id)
    if count_history(past) <= window.wanted:
        return past
    kept = drop_blocks(past, window, conversation.summarized_turn_id)
    if len(kept) < len(past):
        begins = kept[0].turn_id if kept else turn_id
        await session.execute(MOVE_WINDOW, {"conversation_id": conversation.id, "begins": begins})
    last_dropped = past[len(past) - len(kept) - 1].turn_id if len(kept) < len(past) else 0
    if count_history(kept) > window.wanted or last_dropped > conversation.summarized_turn_id:
        await session.execute(ASK_FOR_SUMMARY, {"conversation_id": conversation.id})
    return kept


async def list_history(
    session: Session, conversation: ResolvedConversation, *, first: int, before: int, user_id: int
) -> list[PastStep]:
    """Return the steps of the turns from `first` on, before `before`; in a direct conversation the user's own."""
    query = OWN_HISTORY if conversation.place.is_direct else HISTORY
    given = {"conversation_id": conversation.id, "first": first, "before": before}
    given |= {"user_id": user_id} if query is OWN_HISTORY else {}
    split = 2 + len(STEP_COLUMNS)
    rows = (await session.execute(query, given)).all()
    return [PastStep(row[0], row[1], to_step(row[2:split], row[split:])) for row in rows]


def drop_blocks(past: Sequence[PastStep], window: Window, summarized_turn_id: int) -> list[PastStep]:
    """Return the history without its oldest turns, as many as the window and the summary demand.

    Turns that the summary holds are dropped until half of what is wanted is left, others only when `window.most` is
    exceeded.
    """
    turns = deque(list(group) for _, group in groupby(past, key=lambda each: each.turn_id))
    total = count_history(past)
    while turns and total > window.wanted * KEPT_SHARE and turns[0][0].turn_id <= summarized_turn_id:
        total -= count_history(turns.popleft())
    if total > window.most:
        log.warning("history_dropped_without_summary", first_turn=turns[0][0].turn_id)
        while turns and total > window.most * KEPT_SHARE:
            total -= count_history(turns.popleft())
    return [each for turn in turns for each in turn]


def count_history(steps: Sequence[PastStep]) -> int:
    """Return an upper estimate of the tokens of these steps in the prompt, images included."""
    return sum(_count(each.step) for each in steps) + count_images(each.step for each in steps)


def count_images(steps: Iterable[Step]) -> int:
    """Return the tokens of the images that these steps name."""
    # The turn of an image does not matter for counting tokens.
    naming = [(0, step) for step in steps if names_files(step)]
    return IMAGE_TOKENS * len(find_named(naming)) if naming else 0


def names_files(step: Step) -> bool:
    """Return whether a message may name files; as a rule it does not."""
    return step.role == "user" and "(file_id " in step.content


def shorten(step: Step) -> Step:
    """Return the step of a past turn as the prompt shows it: of a long result of a tool only the beginning."""
    if step.role != "tool_result" or len(step.content) <= PAST_RESULT_CHARS:
        return step
    return replace(step, content=cut(step.content, PAST_RESULT_CHARS), read=UNREAD)


def _count(step: Step) -> int:
    if step.role != "tool_result" or len(step.content) <= PAST_RESULT_CHARS:
        return step.token_count
    return min(step.token_count, count_tokens(step.content[:PAST_RESULT_CHARS]))
