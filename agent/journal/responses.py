"""Reads the response of a finished turn from the database, for its caller."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from agent.journal.steps import Step, ToolUse
from agent.people.billing.budget import to_usage
from agent.prompts import prompts
from shared.db.driver import Session
from shared.errors import Stopped
from shared.messages import AgentResponse, AskedConfirmation, ReplyFile, ToolCallMade

IS_THERE = text("SELECT id FROM inbox WHERE id = :inbox_id")
FIND = text("""
SELECT inbox.status, turns.id, turns.conversation_id, outbox.content, outbox.files, turns.finished, turns.iterations,
    turns.model, turns.error,
    (SELECT confirmations.id FROM confirmations WHERE confirmations.turn_id = turns.id) AS confirmation_id,
    (SELECT json_agg(json_build_object('seq', seq, 'role', role, 'content', content, 'tool_call_id', tool_call_id,
                                       'tool_name', tool_name) ORDER BY seq)
     FROM messages WHERE messages.turn_id = turns.id AND role IN ('tool_call', 'tool_result')) AS steps,
    (SELECT json_build_array(sum(input_tokens), sum(cached_tokens), sum(output_tokens),
                             CASE WHEN count(*) = count(cost_estimate) THEN sum(cost_estimate) END)
     FROM token_logs WHERE purpose IN ('answer', 'delegation') AND turn_id = ANY(ARRAY(
         WITH RECURSIVE subtree AS (
             SELECT turns.id
             UNION ALL SELECT child.id FROM turns AS child JOIN subtree ON child.parent_turn_id = subtree.id
         ) SELECT id FROM subtree))) AS usage
FROM inbox LEFT JOIN turns ON turns.id = inbox.turn_id LEFT JOIN outbox ON outbox.turn_id = turns.id
WHERE inbox.id = :inbox_id AND (
    outbox.id IS NOT NULL OR inbox.status = 'failed' OR inbox.status = 'cancelled' AND inbox.turn_id IS NULL
)
""")


async def find_response(session: Session, inbox_id: int) -> AgentResponse | None:
    """Return the response to the message of an inbox row; None while its turn has not ended.

    A message that is not there any more has one with the code `erased`.
    """
    row = (await session.execute(FIND, {"inbox_id": inbox_id})).one_or_none()
    if row is None:
        is_there = (await session.execute(IS_THERE, {"inbox_id": inbox_id})).one_or_none() is not None
        # Its person was erased meanwhile.
        erased = AgentResponse(turn_id=0, content=prompts().turn.erased, finished=False, error="erased")
        return None if is_there else erased
    if row.content is None and row.status == "cancelled":
        # The message was cancelled before its turn was opened.
        return AgentResponse(turn_id=0, content=str(Stopped()), finished=False, error=Stopped.code)
    if row.content is None:
        parked = prompts().turn.parked
        return AgentResponse(row.id or 0, parked, finished=False, error="parked", conversation_id=row.conversation_id)
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
    )


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
