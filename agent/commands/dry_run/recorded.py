"""Reads recorded turns with what their prompts were made of; changes nothing."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from agent.journal.steps import PastStep, Step, list_steps, read_history
from agent.people.module_rules import ModuleRules
from agent.people.participants import ListedAgent, ResolvedConversation, ResolvedUser, to_agents, to_rights
from agent.tools.outcomes import ModelWork
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.memory.memories import Memories, RecalledMemory
from shared.messages import Place, Usage

statements = load_statements(__file__)


class RecordedTurn(Struct, frozen=True):
    """A recorded turn, with the history and the memories that its prompt had.

    `modules` is what admins say of modules today; `work` is what it took then, of tokens those of the answers alone.
    """

    id: int
    user: ResolvedUser
    conversation: ResolvedConversation
    agents: tuple[ListedAgent, ...]
    modules: ModuleRules
    started_at: datetime
    steps: tuple[Step, ...]
    history: tuple[PastStep, ...]
    memories: tuple[RecalledMemory, ...]
    work: ModelWork

    @property
    def question(self) -> str:
        """Return the person's message."""
        return self.steps[0].content

    @property
    def answer(self) -> Step:
        """Return the step of the answer."""
        return next(step for step in reversed(self.steps) if step.role == "assistant")


async def choose_turns(session: Session, *, persona_id: int, ids: Sequence[int] = (), last: int = 0) -> tuple[int, ...]:
    """Return these turns, or the `last` ones that the persona has answered, the oldest first.

    Raises `Refusal` for turns that cannot be answered again.
    """
    if not ids:
        rows = (await session.execute(statements.list_newest_turns, {"persona_id": persona_id, "count": last})).all()
        if not rows:
            raise Refusal("This persona has not answered anything yet; --turns names turns of others.")
        return tuple(row.id for row in reversed(rows))
    turn_ids = {row.id for row in (await session.execute(statements.list_answered_turns, {"ids": list(ids)})).all()}
    missing_ids = [id_ for id_ in ids if id_ not in turn_ids]
    if missing_ids:
        raise Refusal(
            f"These turns can't be answered again: {', '.join(map(str, missing_ids))}."
            " There must be an answer, and a person who has not asked to forget it."
        )
    return tuple(dict.fromkeys(ids))


async def read_turn(database: Database, memories: Memories, turn_id: int) -> RecordedTurn:
    """Return a recorded turn; the turn exists."""
    async with database.transaction() as session:
        row = (await session.execute(statements.read_turn, {"turn_id": turn_id})).one()
        steps = await list_steps(session, turn_id)
        first = row.reasons.get("history", {}).get("first_turn", row.window_turn_id)
        history = (
            await read_history(session, row.conversation_id, first=first, before=turn_id, user_id=row.user_id)
            if first is not None
            else []
        )
    rights = to_rights(row)
    user = ResolvedUser(
        row.user_id,
        permission=rights.permission,
        name=row.display_name or steps[0].speaker or f"user {row.user_id}",
        time_zone=row.time_zone,
        week_start=row.week_start,
    )
    # A summary that has been written since holds what was said later.
    summary_turn_id = row.reasons.get("summary", {}).get("up_to_turn")
    summary = row.summary if summary_turn_id is not None and summary_turn_id == row.summarized_turn_id else None
    place = Place.from_row(row)
    conversation = ResolvedConversation(row.conversation_id, place, summary, window_turn_id=row.window_turn_id)
    scores = {entry["id"]: entry["score"] for entry in row.reasons.get("memories", ())}
    own_memories = memories.of_user(row.user_id, place, row.conversation_id)
    # On a connection of its own: whoever waits for one has none.
    memories_by_id = await own_memories.read(list(scores)) if scores else {}
    recalled = [
        RecalledMemory(memory.id, memory.content, memory.scope, said_at=memory.said_at, score=scores[memory.id])
        for memory_id in scores
        if (memory := memories_by_id.get(memory_id)) is not None
    ]
    return RecordedTurn(
        id=row.id,
        user=user,
        conversation=conversation,
        agents=to_agents(row.agents) if row.agents else (),
        modules=rights.modules,
        started_at=row.started_at,
        steps=tuple(steps),
        history=tuple(history),
        memories=tuple(recalled),
        work=ModelWork(max(1, row.iterations), Usage(output_tokens=int(row.output_tokens or 0))),
    )
