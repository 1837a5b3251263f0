"""The database rows of questions: each is answered once, and each approval is consumed once."""

import hashlib
from dataclasses import dataclass

from sqlalchemy import TextClause, text

from agent.journal.steps import TurnKey
from agent.tools.outcomes import ApprovalRequest
from agent.turn.confirmations.questions import list_calls
from shared.db.database import Database
from shared.db.driver import Session

FIND = text("""
SELECT asked.id, asked.call_id, asked.tool, asked.arguments, asked.question, asked.reason, asked.agent, asked.status,
    asked.approver_level, asked.expires_at > now() AS is_fresh, message.created_at > asked.created_at AS is_after,
    asked.turn_id = (
        SELECT max(turns.id) FROM turns
        WHERE turns.conversation_id = :conversation_id AND turns.user_id = :user_id AND turns.id < :turn_id
          AND turns.parent_turn_id IS NULL
    ) AS is_last
FROM confirmations AS asked JOIN inbox AS message ON message.id = :inbox_id
WHERE asked.conversation_id = :conversation_id AND asked.user_id = :user_id
  AND asked.id = coalesce(CAST(:id AS bigint), asked.id)
ORDER BY asked.id DESC LIMIT 1 FOR UPDATE OF asked
""")
CLOSE = text("""
UPDATE confirmations SET status = 'expired' WHERE conversation_id = :conversation_id AND status = 'pending'
""")
ANSWER = text("""
UPDATE confirmations SET status = :status, answered_at = now(), answered_turn_id = :turn_id, approved_by = :approved_by
WHERE id = :id
""")
EXPIRE = text("UPDATE confirmations SET status = 'expired' WHERE id = :id")
# A user has at most one open question in a conversation: a newer one replaces the older.
ADD_QUESTION = text("""
WITH replaced AS (
    UPDATE confirmations SET status = 'expired'
    WHERE conversation_id = :conversation_id AND user_id = :user_id AND status = 'pending'
)
SELECT nextval(pg_get_serial_sequence('confirmations', 'id'))
""")
USE = text("""
UPDATE confirmations SET status = 'used', used_at = now() FROM turns
WHERE confirmations.id = :id AND confirmations.status = 'approved' AND turns.id = confirmations.answered_turn_id
  AND turns.id = :turn_id AND turns.attempt = :attempt AND turns.status = 'running'
  AND turns.user_id = confirmations.user_id
RETURNING confirmations.tool, confirmations.arguments, confirmations.question, confirmations.agent
""")
FIND_USED = text("""
SELECT confirmations.tool, confirmations.arguments, confirmations.question, confirmations.agent
FROM confirmations JOIN turns ON turns.id = confirmations.answered_turn_id AND turns.user_id = confirmations.user_id
WHERE confirmations.id = :id AND confirmations.status = 'used'
  AND turns.id = :turn_id AND turns.attempt = :attempt AND turns.status = 'running'
""")


@dataclass(frozen=True, slots=True)
class NewQuestion:
    """A new row of `confirmations`: the request for approval that a turn ends with."""

    id: int
    call_id: str
    tool: str
    arguments: str
    arguments_hash: str
    question: str
    reason: str
    agent: str | None
    approver_level: str | None


@dataclass(frozen=True, slots=True)
class Agreed:
    """What was asked about each call of an approved question, and the agent whose calls they are.

    `agent` is None for the persona that answers.
    """

    questions: tuple[str, ...]
    agent: str | None


async def consume(database: Database, key: TurnKey, confirmation_id: int) -> Agreed | None:
    """Consume the approval of calls, which may then run.

    Returns None when it was consumed before, or another attempt runs the turn: the calls may then already have run.
    """
    return await _find_agreed(database, USE, key, confirmation_id=confirmation_id)


async def find_consumed(database: Database, key: TurnKey, confirmation_id: int) -> Agreed | None:
    """Return an approval that this turn has consumed for the first of its calls; None when another attempt runs it."""
    return await _find_agreed(database, FIND_USED, key, confirmation_id=confirmation_id)


async def _find_agreed(database: Database, statement: TextClause, key: TurnKey, confirmation_id: int) -> Agreed | None:
    parameters = {"id": confirmation_id, "turn_id": key.id, "attempt": key.attempt}
    async with database.statement() as session:
        row = (await session.execute(statement, parameters)).one_or_none()
    if row is None:
        return None
    return Agreed(tuple(call.question for call in list_calls(row.tool, row.arguments, row.question)), row.agent)


async def close_questions(session: Session, conversation_id: int) -> None:
    """Expire the open questions of a conversation: a later yes there is an ordinary message."""
    await session.execute(CLOSE, {"conversation_id": conversation_id})


async def add_question(session: Session, request: ApprovalRequest, user_id: int, conversation_id: int) -> NewQuestion:
    """Expire the user's older question in this conversation, and return the new one; `end_turn` inserts its row."""
    place = {"user_id": user_id, "conversation_id": conversation_id}
    return NewQuestion(
        id=(await session.execute(ADD_QUESTION, place)).scalar_one(),
        call_id=request.call_id,
        tool=request.tool,
        arguments=request.arguments,
        arguments_hash=hashlib.sha256(request.arguments.encode()).hexdigest(),
        question=request.text,
        reason=request.reason,
        agent=request.agent,
        approver_level=request.approver,
    )
