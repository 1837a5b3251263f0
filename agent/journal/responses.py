"""Reads the response of a finished turn from the database, for its caller."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agent.journal.steps import Step, ToolUse
from agent.people.billing.budget import to_usage
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import Stopped
from shared.messages import AgentResponse, AskedConfirmation, ReplyFile, ToolCallMade

statements = load_statements(__file__)


async def find_response(
    session: Session, inbox_id: int, *, lost_ids: Collection[int] = frozenset()
) -> AgentResponse | None:
    """Return the response to the message of an inbox row; None while its turn has not ended.

    A message that is not there any more has one with the code `erased`, or `lost` if a failover may have lost it.
    """
    row = (await session.execute(statements.find_response, {"inbox_id": inbox_id})).one_or_none()
    if row is None or row.content is None:
        return await _find_other_end(session, inbox_id, row, lost_ids=lost_ids)
    return AgentResponse(
        turn_id=row.id,
        content=row.content,
        files=tuple(ReplyFile(**file) for file in row.files),
        tool_calls_made=to_calls_made([to_call_step(step) for step in row.steps or []]),
        finished=bool(row.finished),
        iterations=row.iterations,
        model=row.model,
        usage=to_usage(row.usage),
        error=row.error,
        confirmation=None if row.confirmation_id is None else AskedConfirmation(row.confirmation_id),
        conversation_id=row.conversation_id,
        action=row.action,
    )


async def _find_other_end(
    session: Session, inbox_id: int, row: Any, *, lost_ids: Collection[int]
) -> AgentResponse | None:
    # Imported here: a command of the terminal that reads an answer starts without the texts.
    from agent.prompts import prompts

    if row is None:
        is_there = (await session.execute(statements.find_message, {"inbox_id": inbox_id})).one_or_none() is not None
        if is_there:
            return None
        # Otherwise its person was erased meanwhile.
        error, content = ("lost", prompts().turn.lost) if inbox_id in lost_ids else ("erased", prompts().turn.erased)
        return AgentResponse(turn_id=0, content=content, finished=False, error=error)
    if row.status == "cancelled":
        # The message was cancelled before its turn was opened.
        return AgentResponse(turn_id=0, content=str(Stopped()), finished=False, error=Stopped.code)
    parked = prompts().turn.parked
    return AgentResponse(row.id or 0, parked, finished=False, error="parked", conversation_id=row.conversation_id)


def to_call_step(row: Mapping[str, Any]) -> Step:
    """Return a call or a result as the query selects it."""
    tool = ToolUse(row["tool_call_id"], row["tool_name"] or "")
    return Step(row["seq"], row["role"], row["content"], tool=tool)


def to_calls_made(steps: Sequence[Step]) -> tuple[ToolCallMade, ...]:
    """Pair the tool calls with their results; the result is None for a call without one."""
    results = {step.tool.call_id: step.value for step in steps if step.role == "tool_result"}
    return tuple(
        ToolCallMade(step.tool.name, step.value, results.get(step.tool.call_id))
        for step in steps
        if step.role == "tool_call"
    )
