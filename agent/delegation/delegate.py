"""How a task is handed to an agent: a turn below the one that asks, with a journal and a reservation of its own.

The agent works with its persona's prompt, model and modules, on the person's permission and budget, in the same place;
it sees the task alone. Its turn is found again by the call that asked: after a crash it goes on where its journal ends.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from agent.app import App
from agent.billing.ledger import add_usage
from agent.delegation.agents import DelegationResult, count_model_calls, find_askable
from agent.delegation.child_turn import OpenedChild, abandon_child, close_child, open_child, read_result
from agent.delegation.peers import Asker, PeerFile
from agent.policies.taint import find_taint
from agent.prompts import prompts
from agent.turn.cancellation import Stops
from agent.turn.close import TurnResult
from agent.turn.log import Progress, begin_progress
from agent.turn.open import RunningTurn
from agent.turn.run import CLOSING_SECONDS, answer_turn
from shared.db.database import DatabaseLost
from shared.db.retries import retry_on_lost_db
from shared.errors import ConfirmationNeeded, ParleyError, Superseded, ToolError, TurnTimedOut, Unavailable
from shared.files.filenames import clean_filename
from shared.log import get_logger
from shared.messages import Usage
from shared.text import clean, cut

MAX_TASK_CHARS = 20_000
# The rest of a result tells the files and who made them.
RESULT_SHARE = 0.7
STEP_LIMIT, UNKNOWN = "step_limit", "unknown_outcome"

log = get_logger()


async def delegate(
    app: App, turn: RunningTurn, progress: Progress, call_id: str, agent: str, task: str
) -> dict[str, Any]:
    """Have an agent do a task for this call of the turn, or find out what it did; return the tool's result.

    Raises `ToolError` when there is no result, `ConfirmationNeeded` when the agent has a question that the person must
    say yes to, and `DatabaseLost` when the whole turn has to be taken up again.
    """
    find_askable(turn.scope, agent)
    task = _checked(task)
    # Taken before anything is waited for, so that the first calls of agents side by side are numbered in their order.
    first = progress.next_position()
    try:
        opened = await open_child(app, turn, call_id, agent, task)
        told = await _find_out(app, turn, opened, task, call_id, first, progress)
    except Superseded:
        # If it is the asker that was taken over, its own next step says so.
        raise ToolError(prompts().delegation.ended.format(agent=agent), agent=agent) from None
    progress.told[call_id] = told
    if told.usage != Usage():
        progress.usage = add_usage(progress.usage, told.usage)
    if (question := told.question) is not None:
        raise ConfirmationNeeded(question=question.text, asked=replace(question, agent=question.agent or agent))
    return _to_result(told, app.settings.tool_result_max_chars)


async def _find_out(
    app: App, turn: RunningTurn, opened: OpenedChild, task: str, call_id: str, first: int, asker: Progress
) -> DelegationResult:
    if opened.turn is None or opened.row is None:
        async with app.database.transaction() as session:
            told = await read_result(session, opened.id)
        _skip(asker, told.iterations - 1)
        return told
    child = opened.turn
    received: list[dict[str, Any]] = []
    if opened.row.persona_id is None:
        progress = begin_progress(child)
        answer = _ask_peer(app, child, opened, task, call_id, received)
    else:
        first = _skip(asker, count_model_calls(child.steps)) or first
        progress = begin_progress(child)
        progress.positions = chain((first,), asker.positions) if asker.positions is not None else None
        # Its task was written with all this in view.
        taint = await find_taint(app, turn, asker)
        progress.shows_untrusted, progress.shows_private = taint.untrusted, taint.private
        answer = _answer(app, child, progress)
    told = await _settled(app, child, progress, answer)
    return replace(told, files=tuple(received)) if received else told


def _skip(asker: Progress, count: int) -> int:
    # What the agent has said in an attempt before this one has its numbers.
    last = 0
    for _ in range(count):
        last = asker.next_position()
    return last


async def _settled(
    app: App, child: RunningTurn, progress: Progress, answering: Coroutine[Any, Any, TurnResult]
) -> DelegationResult:
    is_closed = False
    try:
        answer = await answering
        told = await retry_on_lost_db(lambda: close_child(app, child, answer), CLOSING_SECONDS)
        is_closed = True
    finally:
        if not is_closed:
            with suppress(DatabaseLost):
                await asyncio.shield(abandon_child(app, child, progress))
    log.info(
        "agent_finished",
        turn=child.key.id,
        agent=told.agent,
        error=told.error,
        steps=told.iterations,
        tokens=told.usage.total,
        cost=told.usage.cost,
        seconds=round(app.clock.monotonic() - child.began, 3),
    )
    return told


async def _answer(app: App, child: RunningTurn, progress: Progress) -> TurnResult:
    answer = await answer_turn(app, child, progress, Stops(), None)
    is_at_limit = not answer.finished and progress.waves >= child.persona.max_iterations
    return replace(answer, error=STEP_LIMIT) if answer.error is None and is_at_limit else answer


async def _ask_peer(
    app: App, child: RunningTurn, opened: OpenedChild, task: str, call_id: str, received: list[dict[str, Any]]
) -> TurnResult:
    row = opened.row
    if row is None or opened.is_known:
        # It may have done its work, or be at it: to ask once more might do it twice.
        return _without(
            child, ToolError(prompts().delegation.unknown_outcome.format(agent=child.scope.hops[-1])), UNKNOWN
        )
    seconds, hops = child.deadline - app.clock.monotonic(), child.scope.hops[:-1]
    asker = Asker(child.user.id, child.conversation.place.is_direct)
    try:
        async with asyncio.timeout(seconds):
            found = await app.peers.ask(row, task, seconds=seconds, hops=hops, context_id=call_id, asker=asker)
    except TimeoutError:
        return _without(child, TurnTimedOut())
    except (ToolError, Unavailable) as error:
        return _without(child, error)
    lines = [await _keep(app, child, file, received) for file in found.files]
    text = "\n".join([clean(found.text), *lines]).strip()
    return TurnResult(text=text or prompts().turn.empty, steps=child.steps, finished=found.finished)


async def _keep(app: App, child: RunningTurn, file: PeerFile, received: list[dict[str, Any]]) -> str:
    """Store a file of the answer as one of the person's; return the line that tells of it, also when it can't be."""
    name = clean_filename(file.filename)
    storage = app.storage.of_user(app.database, child.user.id, child.conversation.id, child.key.id)
    try:
        kept = await storage.create(name, file.content, file.mime_type)
    except (ToolError, Unavailable) as error:
        return prompts().delegation.file_lost.format(filename=name, reason=error)
    received.append({"file_id": kept.file_id, "filename": kept.filename, "url": kept.url})
    return prompts().delegation.file_kept.format(filename=kept.filename, file_id=kept.file_id)


def _without(child: RunningTurn, error: ParleyError, code: str | None = None) -> TurnResult:
    cause = str(error.__cause__) if error.__cause__ else None
    return TurnResult(
        text=str(error), steps=child.steps, status="failed", finished=False, error=code or error.code, cause=cause
    )


def _checked(task: str) -> str:
    task = clean(task).strip()
    if not task:
        raise ToolError(prompts().delegation.no_task)
    if len(task) > MAX_TASK_CHARS:
        raise ToolError(prompts().delegation.long_task.format(count=len(task), most=MAX_TASK_CHARS))
    return task


def _to_result(told: DelegationResult, limit: int) -> dict[str, Any]:
    facts = {"agent": told.agent, "iterations": told.iterations}
    # Errors are cut at half of the limit: what the agent said stands in the middle of one.
    if told.error is not None:
        said_so_far = cut(told.text, int(limit * RESULT_SHARE / 2))
        raise ToolError(
            prompts().delegation.failed.format(agent=told.agent, text=said_so_far), reason=told.error, **facts
        )
    result = {"result": cut(told.text, int(limit * RESULT_SHARE)), **facts}
    result |= {"files": list(told.files)} if told.files else {}
    return result if told.finished else {**result, "finished": False}
