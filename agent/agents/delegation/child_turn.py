"""Child turns: the turn of an agent, created by a tool call of its parent turn; opened, closed, abandoned, read.

A child turn is identified by its parent's id and the id of the tool call. It has its own journal, attempt counter and
reservation. Its user and conversation are the parent's, so that the ledger attributes its cost to that conversation.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from agent.journal.records import record, settle
from agent.journal.steps import Entry, Step, TurnKey, TurnLog, list_steps
from agent.live.announcer import Announcer
from agent.live.listener import Listener
from agent.people.billing.budget import NOT_REQUESTED, abandon, reserve, to_usage
from agent.people.participants import LoopMode, Participants
from agent.people.personas import get_persona
from agent.prompts import prompts
from agent.tools.calls import CallingTurn
from agent.tools.outcomes import ApprovalRequest, list_files
from agent.turn.close import TurnResult, count_iterations, end_turn, filtered
from agent.turn.confirmations.questions import find_last_question
from agent.turn.context.builder import estimate
from agent.turn.running import RESERVATION_SLACK_SECONDS, Request, RunningTurn, Spend, Start
from agent.turn.services import TurnServices
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import ConfigurationError, Stopped, Superseded, ToolError
from shared.messages import Permission, Usage, to_fields
from shared.text import count_tokens

if TYPE_CHECKING:
    from shared.models import Agent

statements = load_statements(__file__)

# The parent reserves this part of its remaining time, to answer after the child has ended or timed out.
KEPT_SHARE, KEPT_SECONDS = 0.25, 30.0
PURPOSE = "delegation"
# In the column `env` of an agent.
VARIABLE = "DEBUG_MOCK_RESPONSES"


class DelegationResult(Struct, frozen=True):
    """The result of a child turn, or its error code.

    `iterations` and `usage` include the agents that it delegated to itself. `question`: the approval that it needs from
    the person before it can continue.
    """

    agent: str
    text: str
    error: str | None = None
    finished: bool = True
    iterations: int = 0
    usage: Usage = field(default_factory=Usage)
    files: tuple[dict[str, Any], ...] = ()
    question: ApprovalRequest | None = None


class OpenedChild(Struct, frozen=True):
    """An opened child turn and the row of its agent; both are None if the child turn has ended already.

    `services` are those of the child, whose models may be its agent's script. `is_known`: an earlier attempt of the
    parent created it.
    """

    id: int
    call_id: str
    turn: RunningTurn | None = None
    agent: "Agent | None" = None
    services: TurnServices | None = None
    is_known: bool = False


class _Begun(Struct, frozen=True):
    # A child turn as stored: created by this attempt or loaded from an earlier one.
    key: TurnKey
    log: TurnLog
    announcer: Announcer


async def open_child(services: TurnServices, asker: CallingTurn, call_id: str, *, agent: str, task: str) -> OpenedChild:
    """Create the child turn of this call, or resume the one of an interrupted attempt.

    Raises `Superseded` if another worker has taken over the parent, `ToolError` if the agent has been disabled.
    """
    async with services.database.transaction() as session:
        parameters = {"turn_id": asker.key.id, "attempt": asker.key.attempt, "call_id": call_id, "agent": agent}
        turn = (await session.execute(statements.find_child, parameters)).one_or_none()
        if turn is not None and turn.status != "running":
            return OpenedChild(turn.id, call_id)
        # Read again, because the agent may have been disabled since the tool was offered.
        row: Any = (await session.execute(statements.find_agent, {"name": agent})).one_or_none()
        if row is None or Permission.from_label(row.required_permission) > asker.user.permission:
            raise ToolError(prompts().delegation.switched_off.format(agent=agent), agent=agent)
        if turn is None:
            start = await _begin(
                services.events, session, asker=asker, parameters=parameters | {"persona_id": row.persona_id}, task=task
            )
        else:
            parameters = {"id": turn.id, "attempt": asker.key.attempt}
            attempt = (await session.execute(statements.take_over_child, parameters)).scalar_one_or_none()
            if attempt is None:
                raise Superseded
            key = TurnKey(turn.id, attempt)
            await abandon(session, turn.id)
            last = (await session.execute(statements.find_last_event, {"turn_id": turn.id})).scalar_one()
            announcer = services.events.announcer(key, last_seq=-1 if last is None else last)
            start = _Begun(key, TurnLog(turn.id, await list_steps(session, turn.id)), announcer)
        services = with_script(services, row)
        child = await _to_child(services, session, asker=asker, start=start, row=row)
    return OpenedChild(start.key.id, call_id, turn=child, agent=row, services=services, is_known=turn is not None)


def with_script(services: TurnServices, row: "Agent") -> TurnServices:
    """Return the services with the scripted answers of this agent, if it has some, instead of the models.

    Raises `ToolError` if the script is wrong.
    """
    script = row.env.get(VARIABLE)
    if script is None:
        return services
    try:
        router = services.models.router.scripted(script)
    except ConfigurationError as error:
        raise ToolError(
            prompts().delegation.wrong_script.format(agent=row.name, reason=error), agent=row.name
        ) from None
    return replace(services, models=replace(services.models, router=router))


async def _begin(
    announcers: Listener, session: Session, asker: CallingTurn, parameters: dict[str, Any], task: str
) -> _Begun:
    child_id = (await session.execute(statements.begin_child, parameters)).scalar_one_or_none()
    if child_id is None:
        raise Superseded
    key = TurnKey(child_id, attempt=1)
    announcer = announcers.announcer(key)
    first = Step(0, "user", content=task, token_count=count_tokens(task), speaker=asker.user.name)
    events = [
        announcer.event("user_message", content=task, speaker=asker.user.name),
        announcer.event(
            "turn_started",
            conversation_id=asker.conversation.id,
            user_id=asker.user.id,
            agent=parameters["agent"],
            parent_turn_id=asker.key.id,
            parent_call_id=parameters["call_id"],
        ),
    ]
    await record(session, key, Entry([first], events))
    return _Begun(key, TurnLog(key.id, [first]), announcer)


async def _to_child(
    services: TurnServices, session: Session, asker: CallingTurn, start: _Begun, row: "Agent"
) -> RunningTurn:
    now = services.clock.monotonic()
    seconds = max(0.0, asker.deadline - now)
    deadline = asker.deadline - min(KEPT_SECONDS, seconds * KEPT_SHARE)
    scope = replace(asker.scope, hops=(*asker.scope.hops, row.name))
    conversation = replace(asker.conversation, summary=None, window_turn_id=0)
    message = replace(asker.message, content=start.log.message.content, attachments=(), wants_stream=False)
    loop_mode: LoopMode = "native"
    # A remote agent makes no model calls here, so no budget is reserved for it.
    spend = Spend(NOT_REQUESTED, 0, purpose=PURPOSE)
    if row.persona_id is not None:
        persona = await get_persona(session, row.persona_id, asker.user.permission, settings=services.settings)
        instructions = f"{persona.system_prompt}\n\n{prompts().delegation.instructions}"
        scope = replace(scope, persona=replace(persona, system_prompt=instructions))
        loop_mode = persona.loop_mode if persona.loop_mode and persona.loop_mode in services.models.modes else "native"
    child = RunningTurn(
        key=start.key,
        request=Request(message),
        participants=Participants(
            asker.user, scope.persona, conversation=conversation, turn_id=start.key.id, agents=scope.agents
        ),
        scope=scope,
        offer=services.toolbox.offered_to(scope),
        start=Start(now, deadline),
        loop_mode=loop_mode,
        announcer=start.announcer,
        log=start.log,
        spend=spend,
    )
    if row.persona_id is None:
        return child
    tokens = estimate(
        child.persona,
        child.conversation,
        history=(),
        steps=child.log.steps,
        offer=child.offer,
        memory_limit=services.settings.memory_recall_limit if child.participants.have_memories else 0,
    )
    spend.price = services.models.router.highest_price(child.persona.model)
    spend.grow(tokens + services.models.modes[loop_mode].prompt_tokens)
    # Open calls of tools come first, and reserve for themselves.
    if not child.log.open_calls:
        seconds = deadline - now + RESERVATION_SLACK_SECONDS
        spend.admit(await reserve(session, spend.to_reservation(child.user.id, child.key, seconds)))
    return child


async def close_child(database: Database, child: RunningTurn, answer: TurnResult) -> DelegationResult:
    """End the child turn with this answer and return its result; raises `Superseded` if another attempt runs it."""
    announcer, spend, answer = child.announcer, child.spend, await filtered(child, answer)
    facts = {"finished": answer.finished, "error": answer.error}
    payload = {"iterations": count_iterations(child), "usage": to_fields(spend.usage), "model": spend.model}
    events = [
        *announcer.thinking(answer.thinking),
        announcer.event("message", content=answer.text, files=[]),
        announcer.event("turn_complete", **payload, **facts),
    ]
    async with database.transaction() as session:
        await end_turn(session, child, answer, events=events)
        return await read_result(session, child.key.id)


async def abandon_child(database: Database, child: RunningTurn) -> None:
    """Settle the unpaid model calls and release the reservation; the turn stays open for the parent's next attempt.

    If a person has requested to stop it, the turn is ended as cancelled.
    """
    async with database.transaction() as session:
        await settle(session, child.key, child.spend.unpaid)
        parameters = {"turn_id": child.key.id, "attempt": child.key.attempt, "error": Stopped.code}
        await session.execute(statements.end_child, parameters)


async def read_result(session: Session, turn_id: int) -> DelegationResult:
    """Return the result of a child turn that has ended."""
    row = (await session.execute(statements.read_outcome, {"id": turn_id})).one()
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


async def end_orphans(database: Database) -> None:
    """End the child turns whose parent has ended, and their reservations."""
    async with database.transaction() as session:
        for row in (await session.execute(statements.end_orphans)).all():
            await abandon(session, row.id)
