"""Reads and evaluates a user's answer to a request for approval.

A call that needs approval is not run: its turn ends with a question, which is bound to tool, arguments, user and place.
The question is stored in the same transaction as the reply, so that a user can only approve what they were shown. The
answer starts a new turn whose journal begins with the stored calls; each runs once, with exactly the stored arguments,
and the model continues from their results.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from agent.journal.steps import Step, ToolUse, call_seq, to_call_id
from agent.people.participants import ResolvedUser
from agent.queue.job import Waiting
from agent.tools.outcomes import ApprovalRequest
from agent.turn.confirmations.questions import list_calls
from agent.turn.confirmations.rows import answer_question
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import ApprovalNeeded, ConfirmationClosed, ConfirmationExpired, Refusal
from shared.messages import Permission
from shared.text import count_tokens

statements = load_statements(__file__)

# A typed answer; group 1 is a yes.
TYPED = re.compile(r"\s*(?ai:(yes|y)|no|n)[.!]*\s*")
LONGEST_WORD = 20

Evaluation = Literal["ordinary", "agreed", "denied", "expired", "closed", "again"]


class GivenAnswer(Struct, frozen=True):
    """An answer as a message gives it.

    `confirmation_id` is None for a typed "yes" or "no", which names no question. `approved_by` is the id of another
    user who has approved instead of the one who was asked.
    """

    inbox_id: int
    approved: bool
    confirmation_id: int | None
    approved_by: int | None = None

    @classmethod
    def read(cls, entry: Waiting) -> "GivenAnswer | None":
        """Return the answer that a message gives by a button or a word; None when it gives none."""
        decision = entry.message.decision
        if decision is not None:
            return cls(entry.inbox_id, decision.approved, decision.confirmation_id, approved_by=decision.approved_by)
        approved = read_word(entry.message.content)
        return None if approved is None else cls(entry.inbox_id, approved, None)


class DecisionResult(Struct, frozen=True):
    """The result of an answer: steps for the journal (`steps`), a refusal, or the question to ask again (`again`).

    `status` is the new status of the question with the id `confirmation_id`.
    """

    steps: tuple[Step, ...] = ()
    refusal: Refusal | None = None
    again: ApprovalRequest | None = None
    confirmation_id: int | None = None
    status: str = ""
    approved_by: int | None = None


def read_word(content: str) -> bool | None:
    """Return True for a typed yes, False for a no, None for any other text."""
    match = TYPED.fullmatch(content) if len(content) <= LONGEST_WORD else None
    return None if match is None else match[1] is not None


def read_answer(run: Sequence[Waiting]) -> GivenAnswer | None:
    """Return the answer in consecutive messages of one user, None when there is none.

    A no counts in any of the messages. A typed yes counts only in the first one: later it may refer to other text.
    """
    answers = [GivenAnswer.read(entry) for entry in run]
    replies = [reply for reply in answers if reply is not None]
    denial = next((reply for reply in replies if not reply.approved), None)
    by_button = next((reply for reply in replies if reply.confirmation_id is not None), None)
    return denial or by_button or answers[0]


async def apply_answer(
    session: Session, answer: GivenAnswer | None, user: ResolvedUser, conversation_id: int, turn_id: int
) -> DecisionResult | None:
    """Return the result of an answer in this turn; None when the message is not an answer to any question.

    Locks the question's row; call `note_answer` in the same transaction.
    """
    if answer is None:
        return None
    parameters = {
        "conversation_id": conversation_id,
        "user_id": user.id,
        "turn_id": turn_id,
        "inbox_id": answer.inbox_id,
        "id": answer.confirmation_id,
        "approved_by": answer.approved_by,
    }
    row = (await session.execute(statements.find_question, parameters)).one_or_none()
    if row is None:
        return DecisionResult(refusal=ConfirmationClosed()) if answer.confirmation_id is not None else None
    permission = user.permission
    if answer.approved_by is not None:
        # That of another person, who has approved, at this moment: it may have been lost while the answer waited.
        permission = max(map(Permission.from_label, row.approver_permissions), default=Permission.GUEST)
    match evaluate(answer, row):
        case "ordinary":
            return None
        case "closed":
            return DecisionResult(refusal=ConfirmationClosed())
        case "expired":
            return DecisionResult(refusal=ConfirmationExpired(), confirmation_id=row.id, status="expired")
        case "again":
            fields = (row.call_id, row.tool, row.arguments, row.question, row.reason, row.agent, row.approver_level)
            return DecisionResult(again=ApprovalRequest(*fields))
        case "agreed" if lacks_level(permission, row.approver_level):
            return DecisionResult(refusal=ApprovalNeeded(level=row.approver_level))
        case verdict:
            status = "approved" if verdict == "agreed" else "denied"
            steps = _to_steps(verdict, row, turn_id)
            return DecisionResult(steps, confirmation_id=row.id, status=status, approved_by=answer.approved_by)


def lacks_level(permission: Permission, label: str | None) -> bool:
    """Return whether a permission is lower than the level that a question requires for its approval."""
    return label is not None and permission < Permission.from_label(label)


async def note_answer(session: Session, result: DecisionResult | None, user_id: int, turn_id: int) -> None:
    """Store the new status of the question, once the turn of the answer has been opened."""
    if result is not None and result.confirmation_id is not None:
        await answer_question(
            session,
            user_id,
            result.confirmation_id,
            status=result.status,
            turn_id=turn_id,
            approved_by=result.approved_by,
        )


def evaluate(answer: GivenAnswer, row: Any) -> Evaluation:
    """Return what an answer means for a question (a row of `find_question`).

    A typed yes counts only if the question was the last reply to this user in this conversation: otherwise it may
    refer to something else. A message that arrived before the question was asked is not an answer to it.
    """
    is_named = answer.confirmation_id is not None
    is_meant = is_named or row.is_last
    if row.is_after and row.is_fresh and row.status == "pending":
        if not answer.approved:
            return "denied"
        return "agreed" if is_meant else "again"
    if row.is_after and not row.is_fresh and row.status in ("pending", "expired") and is_meant:
        return "expired"
    return "closed" if is_named else "ordinary"


def _to_steps(verdict: Literal["agreed", "denied"], row: Any, turn_id: int) -> tuple[Step, ...]:
    # The same steps as if a model had made the calls.
    answer = Step(seq=1, role="assistant", content="")
    calls = [
        Step(
            seq=(seq := call_seq(answer.seq, number)),
            role="tool_call",
            content=call.arguments,
            token_count=count_tokens(call.arguments) + count_tokens(call.tool),
            tool=ToolUse(
                to_call_id(turn_id, seq),
                call.tool,
                confirmation={"id": row.id, "approved": verdict == "agreed", "number": number},
            ),
        )
        for number, call in enumerate(list_calls(row.tool, row.arguments, row.question))
    ]
    return (answer, *calls)
