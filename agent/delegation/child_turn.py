"""The turn of an agent, below the one that asks: begun or taken over, ended or left, and what it came to.

It is found again by the call that asked. Its journal, its fence and its reservation are its own; user and conversation
are those of the asker, so that the ledger tells what a conversation cost.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from agent.app import App
from agent.billing.budget import Reservation, release, reserve
from agent.billing.ledger import to_usage
from agent.confirmations.decisions import find_last_question
from agent.context.builder import estimate
from agent.delegation.agents import DelegationResult
from agent.events.announcer import Announcer
from agent.journal.records import Entry, record, settle
from agent.journal.steps import Step, TurnKey, list_steps
from agent.journal.turns import end_turn
from agent.llm.tokens import count_tokens
from agent.people.loop_modes import LoopMode
from agent.people.personas import get_persona
from agent.planner.messages import count_form
from agent.prompts import prompts
from agent.turn.close import TurnResult, to_ending
from agent.turn.log import Progress
from agent.turn.open import RESERVATION_SLACK_SECONDS, RunningTurn
from agent.turn.tool_batch import list_files
from shared.errors import Stopped, Superseded, ToolError
from shared.models import Agent, TurnEvent
from shared.permissions import Permission

# Who asked keeps this of the time that is left, to say something with the result or without it.
KEPT_SHARE, KEPT_SECONDS = 0.25, 30.0
PURPOSE = "delegation"

FIND = text("""
SELECT id, status FROM turns WHERE parent_turn_id = :turn_id AND parent_call_id = :call_id
""")
BEGIN = text("""
INSERT INTO turns (conversation_id, user_id, persona_id, parent_turn_id, parent_call_id, agent, loop_mode)
SELECT conversation_id, user_id, :persona_id, id, :call_id, :agent,
       coalesce((SELECT loop_mode FROM personas WHERE id = :persona_id), 'native')
FROM turns
WHERE id = :turn_id AND attempt = :attempt AND status = 'running' FOR SHARE
RETURNING id
""")
TAKE_OVER = text("""
UPDATE turns SET attempt = turns.attempt + 1 FROM turns AS parent
WHERE turns.id = :id AND turns.status = 'running'
  AND parent.id = turns.parent_turn_id AND parent.attempt = :attempt AND parent.status = 'running'
RETURNING turns.attempt
""")
END_STOPPED = text("""
UPDATE turns SET status = 'cancelled', finished = false, error = :error, finished_at = now()
WHERE id = :turn_id AND attempt = :attempt AND status = 'running' AND stop_requested
""")
OUTCOME = text("""
WITH RECURSIVE below AS (
    SELECT id, iterations FROM turns WHERE id = :id
    UNION ALL SELECT turns.id, turns.iterations FROM turns JOIN below ON turns.parent_turn_id = below.id
)
SELECT agent, error, finished, (SELECT sum(iterations) FROM below) AS iterations,
    (SELECT json_build_array(sum(input_tokens), sum(cached_tokens), sum(output_tokens),
                             CASE WHEN count(*) = count(cost_estimate) THEN sum(cost_estimate) END)
     FROM token_logs WHERE turn_id IN (SELECT id FROM below)) AS usage
FROM turns WHERE id = :id
""")
# An agent whose asker has ended works for nobody: its worker died, or the asker was set aside.
END_ORPHANS = text("""
UPDATE turns SET status = 'cancelled', finished = false, error = 'orphaned', finished_at = now() FROM turns AS parent
WHERE turns.status = 'running' AND turns.parent_turn_id IS NOT NULL
  AND parent.id = turns.parent_turn_id AND parent.status <> 'running'
RETURNING turns.id
""")


@dataclass(frozen=True, slots=True)
class OpenedChild:
    """The agent's turn, and its row; without them it has ended before. `is_known`: an earlier attempt began it."""

    id: int
    turn: RunningTurn | None = None
    row: Agent | None = None
    is_known: bool = False


async def open_child(app: App, turn: RunningTurn, call_id: str, name: str, task: str) -> OpenedChild:
    """Begin the agent's turn, or take it over from an attempt that was cut off; raises `Superseded`."""
    async with app.database.transaction() as session:
        asked = {"turn_id": turn.key.id, "attempt": turn.key.attempt, "call_id": call_id, "agent": name}
        found = (await session.execute(FIND, asked)).one_or_none()
        if found is not None and found.status != "running":
            return OpenedChild(found.id)
        row = await _get_row(session, turn, name)
        if found is None:
            key, steps, announcer = await _begin(app, session, turn, asked | {"persona_id": row.persona_id}, task)
        else:
            key, steps, announcer = await _take_over(app, session, found.id, turn.key.attempt)
        child = _to_child(app, turn, key, steps, announcer, row.name)
        if row.persona_id is not None:
            child = await _with_persona(app, session, child, row.persona_id)
    return OpenedChild(key.id, child, row, is_known=found is not None)


async def _get_row(session: AsyncSession, turn: RunningTurn, name: str) -> Agent:
    # Asked once more: what was switched off a moment ago is not asked.
    row = (await session.execute(select(Agent).where(Agent.name == name, Agent.is_enabled))).scalar_one_or_none()
    if row is None or Permission.from_label(row.required_permission) > turn.user.permission:
        raise ToolError(prompts().delegation.switched_off.format(agent=name), agent=name)
    return row


async def _begin(
    app: App, session: AsyncSession, turn: RunningTurn, asked: dict[str, Any], task: str
) -> tuple[TurnKey, tuple[Step, ...], Announcer]:
    begun = (await session.execute(BEGIN, asked)).scalar_one_or_none()
    if begun is None:
        raise Superseded
    key = TurnKey(begun, attempt=1)
    announcer = Announcer(app.database, key, (), last_seq=-1, watched=False)
    said_first = Step(0, "user", task, count_tokens(task), speaker=turn.user.name)
    events = [
        announcer.event("user_message", content=task, speaker=turn.user.name),
        announcer.event(
            "turn_started",
            conversation_id=turn.conversation.id,
            user_id=turn.user.id,
            agent=asked["agent"],
            parent_turn_id=turn.key.id,
            parent_call_id=asked["call_id"],
        ),
    ]
    await record(session, key, Entry([said_first], events))
    return key, (said_first,), announcer


async def _take_over(
    app: App, session: AsyncSession, child_id: int, attempt: int
) -> tuple[TurnKey, tuple[Step, ...], Announcer]:
    taken = (await session.execute(TAKE_OVER, {"id": child_id, "attempt": attempt})).scalar_one_or_none()
    if taken is None:
        raise Superseded
    key = TurnKey(child_id, taken)
    await release(session, child_id)
    last = (await session.execute(select(func.max(TurnEvent.seq)).where(TurnEvent.turn_id == child_id))).scalar()
    announcer = Announcer(app.database, key, (), last_seq=-1 if last is None else last, watched=False)
    return key, tuple(await list_steps(session, child_id)), announcer


def _to_child(
    app: App, turn: RunningTurn, key: TurnKey, steps: tuple[Step, ...], announcer: Announcer, name: str
) -> RunningTurn:
    now = app.clock.monotonic()
    left = max(0.0, turn.deadline - now)
    return replace(
        turn,
        key=key,
        inbox_ids=(),
        message=replace(turn.message, content=steps[0].content, attachments=(), wants_stream=False),
        conversation=replace(turn.conversation, summary=None, window_turn_id=0),
        scope=replace(turn.scope, hops=(*turn.scope.hops, name)),
        history=(),
        steps=steps,
        files=(),
        announcer=announcer,
        failures=0,
        is_stopped=False,
        began=now,
        deadline=turn.deadline - min(KEPT_SECONDS, left * KEPT_SHARE),
        purpose=PURPOSE,
    )


async def _with_persona(app: App, session: AsyncSession, child: RunningTurn, persona_id: int) -> RunningTurn:
    persona = await get_persona(session, persona_id, child.user.permission, settings=app.settings)
    persona = replace(persona, system_prompt=f"{persona.system_prompt}\n\n{prompts().delegation.instructions}")
    scope = replace(child.scope, persona=persona)
    offer = app.toolbox.offered_to(scope)
    recalled = app.settings.memory_recall_limit if child.user.has_memories else 0
    tokens = estimate(persona, child.conversation, history=(), steps=child.steps, offer=offer, memory_limit=recalled)
    loop_mode: LoopMode = persona.loop_mode or "native"
    tokens += count_form() if loop_mode == "planner" else 0
    seconds = child.deadline - child.began + RESERVATION_SLACK_SECONDS
    wanted = Reservation(child.user.id, child.key.id, child.key.attempt, tokens=tokens, seconds=seconds)
    admission = await reserve(session, wanted)
    child = replace(child, persona=persona, scope=scope, offer=offer, loop_mode=loop_mode)
    return replace(child, admission=admission, estimate=tokens)


async def close_child(app: App, child: RunningTurn, answer: TurnResult) -> DelegationResult:
    """End the agent's turn with this answer; raises `Superseded` when another attempt runs it."""
    announcer = child.announcer
    last = Step(
        seq=1 + max(step.seq for step in answer.steps),
        role="assistant",
        content=answer.text,
        token_count=count_tokens(answer.text),
        model_used=answer.model,
    )
    facts = {"finished": answer.finished, "error": answer.error}
    usage = asdict(answer.usage)
    events = [
        *announcer.thinking(answer.thinking),
        announcer.event("message", content=answer.text, files=[]),
        announcer.event("turn_complete", iterations=answer.iterations, usage=usage, model=answer.model, **facts),
    ]
    async with app.database.transaction() as session:
        await end_turn(session, child.key, Entry([last], events), ending=to_ending(answer))
        return await read_result(session, child.key.id)


async def abandon_child(app: App, child: RunningTurn, progress: Progress) -> None:
    """Pay for what was begun, give back the rest, and leave the turn to whoever takes over the one above it.

    When a person has stopped them, it ends here.
    """
    async with app.database.transaction() as session:
        await settle(session, child.key, progress.unpaid)
        given = {"turn_id": child.key.id, "attempt": child.key.attempt, "error": Stopped.code}
        await session.execute(END_STOPPED, given)


async def read_result(session: AsyncSession, turn_id: int) -> DelegationResult:
    """Return what an agent's turn that has ended came to."""
    row = (await session.execute(OUTCOME, {"id": turn_id})).one()
    steps = await list_steps(session, turn_id)
    return DelegationResult(
        agent=row.agent,
        text=next((step.content for step in reversed(steps) if step.role == "assistant"), ""),
        error=row.error,
        finished=bool(row.finished),
        iterations=row.iterations,
        usage=to_usage(row.usage),
        files=list_files(steps),
        question=find_last_question(steps),
    )


async def end_orphans(session: AsyncSession) -> None:
    """End the turns of agents whose asker has ended, and give back what they hold."""
    for row in (await session.execute(END_ORPHANS)).all():
        await release(session, row.id)
