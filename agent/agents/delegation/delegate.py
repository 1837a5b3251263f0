"""Delegation of a task to an agent, in a child turn with its own journal and reservation.

The agent uses its persona's prompt, model and modules, and the user's permission and budget, in the same place; of the
conversation it sees only the task. The tool call identifies the child turn: after a crash it resumes from its journal.
"""

import asyncio
from contextlib import suppress
from itertools import chain
from typing import Any

from msgspec.structs import replace

from agent.agents.delegation.agents import find_askable, find_asker
from agent.agents.delegation.child_turn import (
    DelegationResult,
    OpenedChild,
    abandon_child,
    close_child,
    open_child,
    read_result,
)
from agent.agents.delegation.peers import Asker, Peers
from agent.prompts import prompts
from agent.tools.calls import CallingTurn
from agent.tools.outcomes import ModelWork, Returned
from agent.turn.close import TurnResult
from agent.turn.run import CLOSING_SECONDS, answer_turn
from agent.turn.running import Cancellations, RunningTurn
from agent.turn.services import TurnServices
from shared.db.database import DatabaseLost, retry_on_lost_db
from shared.errors import ParleyError, Superseded, ToolError, TurnTimedOut, Unavailable
from shared.files.filenames import clean_filename
from shared.log import get_logger
from shared.text import clean, cut
from shared.tracing.spans import Attributes, span

MAX_TASK_CHARS = 20_000
# Share of the result limit for the text; the rest is for the files and the agent's name.
RESULT_SHARE = 0.7
STEP_LIMIT, UNKNOWN = "step_limit", "unknown_outcome"

log = get_logger()


async def delegate(
    services: TurnServices, peers: Peers, turn: CallingTurn, call_id: str, *, agent: str, task: str
) -> Returned:
    """Run the task of this call with an agent and return the tool's result; a child turn that has ended is only read.

    Raises `ToolError` if the turn may not delegate to the agent, `DatabaseLost` if the whole turn has to be retried.
    """
    is_scripted = find_askable(turn.scope, agent).is_scripted
    task = clean(task).strip()
    if not task:
        raise ToolError(prompts().delegation.no_task)
    if len(task) > MAX_TASK_CHARS:
        raise ToolError(prompts().delegation.long_task.format(count=len(task), most=MAX_TASK_CHARS))
    own = find_asker(turn.scope)
    # Those with a script of their own number their calls by themselves.
    shares_numbers = turn.numbers is not None and not is_scripted and not (own is not None and own.is_scripted)
    # Drawn before the first await: the first model calls of parallel agents are numbered in the order of their calls.
    first = next(turn.numbers) if turn.numbers is not None and shares_numbers else None
    try:
        child = await open_child(services, turn, call_id, agent=agent, task=task)
        result = await _find_out(services, peers, asker=turn, delegation=child, first=first)
    except Superseded:
        # If another worker has taken over the parent, the parent's next journal write raises `Superseded`.
        raise ToolError(prompts().delegation.ended.format(agent=agent), agent=agent) from None
    work = ModelWork(result.iterations, result.usage, result.text)
    if (question := result.question) is not None:
        return Returned(asked=replace(question, agent=question.agent or agent), work=work)
    facts = {"agent": result.agent, "iterations": result.iterations}
    # Half of a result's share: errors are cut at half of the limit, and this text is in the middle of the message.
    if result.error is not None:
        partial_text = cut(result.text, int(services.settings.tool_result_max_chars * RESULT_SHARE / 2))
        message = prompts().delegation.failed.format(agent=result.agent, text=partial_text)
        return Returned(error=ToolError(message, reason=result.error, **facts), work=work)
    content = {"result": cut(result.text, int(services.settings.tool_result_max_chars * RESULT_SHARE)), **facts}
    content |= {"files": list(result.files)} if result.files else {}
    return Returned(content if result.finished else {**content, "finished": False}, work=work)


async def _find_out(
    services: TurnServices, peers: Peers, asker: CallingTurn, delegation: OpenedChild, first: int | None
) -> DelegationResult:
    child = delegation.turn
    if child is None or delegation.agent is None or delegation.services is None:
        async with services.database.transaction() as session:
            return await read_result(session, delegation.id)
    files: list[dict[str, Any]] = []
    if delegation.agent.persona_id is None:
        answering = _ask_peer(services, peers, delegation=delegation, child=child, files=files)
    else:
        if first is not None and asker.numbers is not None:
            child.spend.numbers = chain((first,), asker.numbers)
        elif delegation.services.models.router.counts_calls:
            child.spend.number_calls(child.log.model_calls)
        # The parent wrote the task after reading its own tool results, so the child inherits their taint.
        child = replace(child, request=replace(child.request, taint=await asker.find_taint(), said=asker.list_said()))
        answering = _answer(delegation.services, child)
    is_closed = False
    try:
        answer = await answering
        result = await retry_on_lost_db(lambda: close_child(services.database, child, answer), CLOSING_SECONDS)
        is_closed = True
    finally:
        if not is_closed:
            with suppress(DatabaseLost):
                await asyncio.shield(abandon_child(services.database, child))
    log.info(
        "agent_finished",
        turn=child.key.id,
        agent=result.agent,
        error=result.error,
        steps=result.iterations,
        tokens=result.usage.total,
        cost=result.usage.cost,
        seconds=round(services.clock.monotonic() - child.start.began, 3),
    )
    return replace(result, files=tuple(files)) if files else result


async def _answer(services: TurnServices, child: RunningTurn) -> TurnResult:
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": child.scope.hops[-1],
        "parley.turn.id": child.key.id,
    }
    with span("invoke_agent", attributes):
        answer = await answer_turn(services, child, Cancellations())
    is_at_limit = not answer.finished and child.log.waves >= child.persona.max_iterations
    return replace(answer, error=STEP_LIMIT) if answer.error is None and is_at_limit else answer


async def _ask_peer(
    services: TurnServices, peers: Peers, delegation: OpenedChild, child: RunningTurn, files: list[dict[str, Any]]
) -> TurnResult:
    row = delegation.agent
    if row is None or delegation.is_known:
        # The remote agent may have received the task already: sending it again could run it twice.
        return _without(ToolError(prompts().delegation.unknown_outcome.format(agent=child.scope.hops[-1])), UNKNOWN)
    seconds, hops = child.deadline - services.clock.monotonic(), child.scope.hops[:-1]
    asker = Asker(child.user.id, child.conversation.place.is_direct)
    try:
        async with asyncio.timeout(seconds):
            answer = await peers.ask(
                row, child.log.message.content, seconds=seconds, hops=hops, context_id=delegation.call_id, asker=asker
            )
    except TimeoutError:
        return _without(TurnTimedOut())
    except (ToolError, Unavailable) as error:
        return _without(error)
    lines = [clean(answer.text)]
    storage = services.files.storage.of_user(services.database, child.user.id, child.conversation.id, child.key.id)
    for file in answer.files:
        name = clean_filename(file.filename)
        try:
            stored_file = await storage.create(name, file.content, file.mime_type, author="stranger")
        except (ToolError, Unavailable) as error:
            lines.append(prompts().delegation.file_lost.format(filename=name, reason=error))
            continue
        files.append({"file_id": stored_file.file_id, "filename": stored_file.filename, "url": stored_file.url})
        lines.append(prompts().delegation.file_kept.format(filename=stored_file.filename, file_id=stored_file.file_id))
    text = "\n".join(lines).strip()
    return TurnResult(text or prompts().turn.empty, finished=answer.finished)


def _without(error: ParleyError, code: str | None = None) -> TurnResult:
    cause = str(error.__cause__) if error.__cause__ else None
    return TurnResult(str(error), status="failed", finished=False, error=code or error.code, cause=cause)
