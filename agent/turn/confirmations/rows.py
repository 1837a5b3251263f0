"""The database rows of questions: each is answered once, and each approval is consumed once."""

import hashlib
import json

from msgspec import Struct
from msgspec.structs import asdict

from agent.journal.steps import TurnKey
from agent.tools.outcomes import ApprovalRequest
from agent.turn.confirmations.questions import list_calls
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import Statement, load_statements

statements = load_statements(__file__)


class NewQuestion(Struct, frozen=True):
    """A new row of `confirmations`: the request for approval that a turn ends with, or what a command asks.

    `id` is None until the row is stored, `call_id` None for a command.
    """

    id: int | None
    call_id: str | None
    tool: str
    arguments: str
    arguments_hash: str
    question: str
    reason: str
    agent: str | None = None
    approver_level: str | None = None


class Agreed(Struct, frozen=True):
    """What a person has agreed to: the fields of the question, and the agent whose calls they are.

    `agent` is None for the persona that answers, and for a command.
    """

    tool: str
    arguments: str
    question: str
    agent: str | None

    @property
    def questions(self) -> tuple[str, ...]:
        """Return what was asked about each call."""
        return tuple(call.question for call in list_calls(self.tool, self.arguments, self.question))


async def consume(database: Database, key: TurnKey, confirmation_id: int) -> Agreed | None:
    """Consume the approval of calls, which may then run.

    Returns None when it was consumed before, or another attempt runs the turn: the calls may then already have run.
    """
    async with database.statement() as session:
        return await _find_agreed(session, statements.use_yes, confirmation_id, key=key)


async def find_consumed(database: Database, key: TurnKey, confirmation_id: int) -> Agreed | None:
    """Return an approval that this turn has consumed for the first of its calls; None when another attempt runs it."""
    async with database.statement() as session:
        return await _find_agreed(session, statements.find_used, confirmation_id, key=key)


async def _find_agreed(
    session: Session, statement: Statement, confirmation_id: int, key: TurnKey | None = None
) -> Agreed | None:
    parameters = {"id": confirmation_id, "turn_id": key and key.id, "attempt": key and key.attempt}
    row = (await session.execute(statement, parameters)).one_or_none()
    return None if row is None else Agreed(row.tool, row.arguments, row.question, agent=row.agent)


async def close_questions(session: Session, conversation_id: int) -> None:
    """Expire the open questions of a conversation: a later yes there is an ordinary message."""
    await session.execute(statements.close_questions, {"conversation_id": conversation_id})


async def reserve_question(session: Session, request: ApprovalRequest) -> NewQuestion:
    """Return the question of a turn with its number, which the reply names; `end_turn` stores it."""
    return NewQuestion(
        id=(await session.execute(statements.reserve_id)).scalar_one(),
        call_id=request.call_id,
        tool=request.tool,
        arguments=request.arguments,
        arguments_hash=_hash(request.arguments),
        question=request.text,
        reason=request.reason,
        agent=request.agent,
        approver_level=request.approver,
    )


async def ask_about_command(session: Session, user_id: int, command: str, arguments: str) -> int:
    """Store a command with its arguments, which are JSON, until this person confirms it; return its number."""
    question = NewQuestion(
        None, None, command, arguments=arguments, arguments_hash=_hash(arguments), question=command, reason="command"
    )
    parameters = {"user_id": user_id, "question": json.dumps(asdict(question))}
    return int((await session.execute(statements.ask_about_command, parameters)).scalar_one())


async def use_yes_to_command(session: Session, user_id: int, confirmation_id: int) -> Agreed | None:
    """Answer the question of a command with yes, and consume the yes in the transaction that does what was asked.

    Returns None when there is no such open question of this person.
    """
    if not await answer_question(session, user_id, confirmation_id, status="approved"):
        return None
    return await _find_agreed(session, statements.use_yes, confirmation_id)


async def deny_command(session: Session, user_id: int) -> bool:
    """Answer the open question of a command to this person with no; return whether there was one."""
    row = (await session.execute(statements.find_question_of_command, {"user_id": user_id})).one_or_none()
    return row is not None and await answer_question(session, user_id, row.id, status="denied")


async def answer_question(
    session: Session,
    user_id: int,
    confirmation_id: int,
    status: str,
    *,
    turn_id: int | None = None,
    approved_by: int | None = None,
) -> bool:
    """Store the answer of this person to an open question; return whether it was open."""
    parameters = {"id": confirmation_id, "user_id": user_id, "status": status}
    row = await session.execute(statements.answer, parameters | {"turn_id": turn_id, "approved_by": approved_by})
    return bool(row.scalar_one())


def _hash(arguments: str) -> str:
    return hashlib.sha256(arguments.encode()).hexdigest()
