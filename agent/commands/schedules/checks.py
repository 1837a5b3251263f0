"""Makes the checks of polling jobs: a tool is called until its result fulfils a condition, or the job expires.

Tools are called between two transactions, never inside of one. A worker that dies meanwhile has changed nothing, and
another one makes the check once the claim has ended: only tools that change nothing can be checked.
"""

import asyncio
import json

from msgspec.structs import replace

from agent.app import App
from agent.commands.schedules.firing import DueRow, lock_due, pause, to_message
from agent.people.module_rules import list_module_rules
from agent.people.pauses import find_pause
from agent.people.personas import resolve_persona
from agent.prompts import prompts
from agent.queue.inbox import accept_within
from agent.tools.calls import PendingCall
from agent.tools.offer import Scope
from agent.tools.outcomes import Outcome, Result, failed
from shared.db.statements import load_statements
from shared.errors import ToolError
from shared.log import get_logger
from shared.messages import DueJob, FinishedCheck, IncomingMessage
from shared.schedules.conditions import Condition
from shared.schedules.jobs import to_timing
from shared.text import cut
from shared.tools import ToolContext

statements = load_statements(__file__)

# Longer than any tool may take.
CLAIM_SECONDS = 180
AT_ONCE = 10
SHOWN_CHARS = 500
MAX_ERROR_CHARS = 300
NOT_TO_CHECK = "{tool} can't be checked: there is no such tool, or it does more than look something up."


log = get_logger()


async def make_checks(app: App) -> int:
    """Make the checks that are due, side by side; return how many."""
    async with app.database.transaction() as session:
        claimed = (
            (await session.execute(statements.claim_checks, {"seconds": CLAIM_SECONDS, "limit": AT_ONCE}))
            .scalars()
            .all()
        )
    await asyncio.gather(*(_check(app, job_id) for job_id in claimed))
    return len(claimed)


async def _check(app: App, job_id: int) -> None:
    async with app.database.transaction() as session:
        due = await lock_due(session, job_id)
        if due is None:
            return
        try:
            condition = Condition.from_row(due.row.condition)
            to_timing(due.row)
        except ToolError as error:
            await pause(session, job_id, str(error))
            return
        persona = await resolve_persona(session, due.message.place, due.user.permission, settings=app.settings)
        modules = await list_module_rules(session)
        refusal = await find_pause(session, due.message.place, is_person_paused=due.user.is_paused)
    scope = Scope(due.user.as_caller(), persona, due.message.place, modules=modules, can_ask=False)
    outcome = await _call(app, due, scope) if refusal is None else failed(str(refusal))
    async with app.database.transaction() as session:
        # Locked anew: it may have been cancelled, paused or served meanwhile.
        again = await lock_due(session, job_id)
        if again is None or again.row.next_due_at != due.row.next_due_at:
            return
        message = _find_message(again, condition, outcome)
        if message is not None:
            await accept_within(session, message)
            await session.execute(statements.move_job_on, {"id": job_id, "next_due_at": None})
        else:
            next_due_at = to_timing(again.row).next_after(again.row.now)
            parameters = {"next_due_at": next_due_at or again.row.expires_at, "error": _find_error(outcome)}
            await session.execute(statements.move_check_on, parameters | {"id": job_id})
    log.info("scheduled_check_made", job=job_id, over=message is not None, failed=not isinstance(outcome, Result))


async def _call(app: App, due: DueRow, scope: Scope) -> Outcome:
    # Only what changes nothing, needs no turn of a model, and is permitted at this moment.
    row, tool = due.row, app.toolbox.find(due.row.check_tool)
    if tool is None or not tool.read_only or tool.spends_budget or tool.resumable or tool.ends_turn:
        return failed(NOT_TO_CHECK.format(tool=row.check_tool))
    user_id, place, outflow = due.user.id, due.message.place, app.events.outflow()
    context = ToolContext(
        user=scope.user,
        place=place,
        conversation_id=row.conversation_id,
        turn_id=0,
        call_id=due.message.event_id,
        module=tool.module,
        clock=app.clock,
        http=app.files.http,
        storage=app.files.storage.of_user(
            app.database, user_id, row.conversation_id, holds_secret=outflow.holds_secret
        ),
        memory=app.memory.of_user(user_id, place, row.conversation_id),
        database=app.database,
        app_settings=app.settings,
        credentials=app.credentials.of_user(user_id, on_read=outflow.hide),
    )
    arguments = dict(row.check_arguments)
    call = PendingCall(context.call_id, tool.name, arguments, scope=scope, offer=app.toolbox.offered_to(scope))
    outcome = await app.toolbox.call(call, context)
    return replace(outcome, content=outflow.json_without_secrets(outcome.content))


def _find_message(due: DueRow, condition: Condition, outcome: Outcome) -> IncomingMessage | None:
    """Return the message that ends the job: it has come true or expired, or can never be checked; else None."""
    row, texts = due.row, prompts().schedules
    if isinstance(outcome, Result) and condition.holds(json.loads(outcome.content)):
        check = FinishedCheck(row.check_tool, dict(row.check_arguments), outcome.content)
        excerpt = cut(outcome.content, SHOWN_CHARS) if row.action == "notify" else ""
        note = f"{texts.came_true.format(tool=row.check_tool)}\n{excerpt}".strip()
        message = to_message(due, note)
        return replace(message, due_job=replace(message.due_job or DueJob(row.id), check=check))
    if not isinstance(outcome, Result) and not json.loads(outcome.content).get("temporary"):
        # The error may be words of the tool's other end.
        return to_message(due, _find_error(outcome) or "", author="stranger")
    if row.now >= row.expires_at:
        return to_message(due, texts.expired.format(until=row.expires_at.astimezone(due.zone), zone=due.zone))
    return None


def _find_error(outcome: Outcome) -> str | None:
    if isinstance(outcome, Result):
        return None
    return cut(str(json.loads(outcome.content).get("message", "")), MAX_ERROR_CHARS)
