"""Asked once, bound to tool, arguments, person and place: what the house does only with a person's yes.

A call that needs one is not run. Its turn ends with the question, and the row of the question is made in the
transaction that makes the reply, so that nothing can be agreed to that was not shown. The answer begins a turn whose
journal starts with the stored call: it runs with exactly the stored arguments, once, and the model goes on from there.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import text

from agent.journal.steps import Step, TurnKey
from agent.journal.turns import NewQuestion
from agent.llm.tokens import count_tokens
from agent.people.users import ResolvedUser
from agent.prompts import prompts
from agent.queue.inbox import Waiting
from shared.db.database import Database
from shared.db.driver import Session
from shared.errors import (
    ApprovalNeeded,
    ConfirmationClosed,
    ConfirmationExpired,
    ConfirmationNeeded,
    Refusal,
    ToolError,
)
from shared.permissions import Permission

# The key of a result that stands for a question; the toolbox takes it out of whatever a tool returns.
ASKED = "confirmation_asked"
CHOICES = ("yes", "no")
# Who writes there is a program that speaks for a person: its yes is nobody's word.
AGENT_ADAPTERS = frozenset({"a2a"})
MAX_SHOWN_CHARS = 6000
WORD = re.compile(r"(yes|y)|(?:no|n)", re.IGNORECASE | re.ASCII)
LONGEST_WORD = 20
ANSWERED_CALL = re.compile(r"(agreed|denied)_(\d{1,19})")
# What is written as an escape when arguments are shown: what ends a block of code, and what a reader does not see.
UNSEEN = re.compile(
    "[`\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)

Reason = Literal["tool", "taint"]
Evaluation = Literal["ordinary", "agreed", "denied", "expired", "closed", "again"]

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
# Only one question is open for a person in a place: a newer one takes the place of the older.
BEGIN_ASKING = text("""
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
RETURNING confirmations.question, confirmations.agent
""")


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: `text` as it is shown, for this call with these arguments.

    `agent`: whose call it is, when it is not that of the persona who answers. `approver`: the permission a yes needs.
    """

    call_id: str
    tool: str
    arguments: str
    text: str
    reason: Reason
    agent: str | None = None
    approver: str | None = None

    @property
    def shown(self) -> str:
        """Return the question with the line that says how to answer."""
        if self.approver is not None:
            return f"{self.text}\n\n{prompts().confirmation.hint_approver.format(level=self.approver)}"
        return f"{self.text}\n\n{prompts().confirmation.hint}"


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer as a message gives it; `confirmation_id` None: by a word. `approved_by`: in the person's place."""

    inbox_id: int
    approved: bool
    confirmation_id: int | None
    approved_by: int | None = None


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """What an answer comes to: the call for the journal, a refusal, or the same question once more.

    `status` is what becomes of the question with `confirmation_id`.
    """

    steps: tuple[Step, ...] = ()
    refusal: Refusal | None = None
    again: Question | None = None
    confirmation_id: int | None = None
    status: str = ""
    approved_by: int | None = None


def request_approval(needed: ConfirmationNeeded, arguments: Mapping[str, Any], *, can_ask: bool) -> str:
    """Return the result of a call that waits for a yes: to its tool's question, to an agent's, or to the house's own.

    Raises `ToolError` where nobody can be asked, or the arguments are more than a person can be shown.
    """
    below: Question | None = needed.fields.get("asked")
    if not can_ask:
        raise ToolError(prompts().confirmation.nobody_to_ask)
    if below is not None:
        told = {"question": below.text, "agent": below.agent, "call_id": below.call_id, "tool": below.tool}
        told |= {"reason": below.reason, "arguments": below.arguments, "approver": below.approver}
        return _to_asked(told, prompts().confirmation.asked_below)
    if (question := needed.fields.get("question")) is not None:
        level: Permission | None = needed.fields.get("approver")
        approver = {"approver": level.label} if level is not None else {}
        return _to_asked({"reason": "tool", "question": question, **approver}, prompts().confirmation.asked)
    if (size := len(show_arguments(arguments))) > MAX_SHOWN_CHARS:
        raise ToolError(prompts().confirmation.too_long.format(size=size, most=MAX_SHOWN_CHARS))
    return _to_asked({"reason": "taint"}, prompts().confirmation.asked)


def _to_asked(told: dict[str, Any], message: str) -> str:
    return json.dumps({ASKED: told, "message": message}, ensure_ascii=False)


def is_asked(result: Any) -> bool:
    """Return whether a result stands for a question: its call was not run."""
    return isinstance(result, dict) and ASKED in result


def to_denied_result() -> str:
    """Return the result of a call that the person has said no to."""
    return json.dumps({"error": True, "message": prompts().confirmation.denied})


def find_question(call: Step, result: Step) -> Question | None:
    """Return the question that a call's result stands for, None when the call was run."""
    if not is_asked(result.value):
        return None
    asked, tool = result.value[ASKED], str(call.tool_name)
    approver = asked.get("approver")
    if "agent" in asked:
        shown, below = asked["question"], (asked["call_id"], asked["tool"], asked["arguments"])
        return Question(*below, shown, asked["reason"], asked["agent"], approver)
    shown = asked["question"] if asked["reason"] == "tool" else to_taint_question(tool, call.value)
    return Question(str(call.tool_call_id), tool, call.content, shown, asked["reason"], approver=approver)


def find_last_question(steps: Sequence[Step]) -> Question | None:
    """Return the question that a turn has ended with, from its whole journal."""
    calls = {step.tool_call_id: step for step in steps if step.role == "tool_call"}
    results = [step for step in steps if step.role == "tool_result"]
    questions = [find_question(calls[step.tool_call_id], step) for step in results]
    last = next((step.content for step in reversed(steps) if step.role == "assistant"), None)
    return next((each for each in questions if each is not None and each.shown == last), None)


def to_taint_question(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the house's own question: the tool and every argument, so that nothing in them can speak for the house."""
    question = prompts().confirmation.taint.format(tool=tool)
    return f"{question}\n\n```json\n{show_arguments(arguments)}\n```"


def show_arguments(arguments: Mapping[str, Any]) -> str:
    """Return JSON for a person's eyes: one line for each value, backquotes and invisible characters as escapes."""
    plain = json.dumps(arguments, ensure_ascii=False, indent=2)
    return UNSEEN.sub(lambda found: "\\u0060" if found[0] == "`" else json.dumps(found[0])[1:-1], plain)


def read_word(content: str) -> bool | None:
    """Return True for a yes, False for a no, None for everything else."""
    if len(content) > LONGEST_WORD:
        return None
    found = WORD.fullmatch(content.strip().rstrip(".!"))
    return None if found is None else found[1] is not None


def read_answer(run: Sequence[Waiting]) -> GivenAnswer | None:
    """Return the answer in messages that one person has written in a row, None when there is none.

    A no anywhere counts. A yes by a word has to come first: after other words it may have been meant for those.
    """
    said = [_read(each) for each in run]
    given = [each for each in said if each is not None]
    denied = next((each for each in given if not each.approved), None)
    by_button = next((each for each in given if each.confirmation_id is not None), None)
    return denied or by_button or said[0]


def _read(waiting: Waiting) -> GivenAnswer | None:
    decision = waiting.message.decision
    if decision is not None:
        return GivenAnswer(waiting.inbox_id, decision.approved, decision.confirmation_id, decision.approved_by)
    approved = read_word(waiting.message.content)
    return None if approved is None else GivenAnswer(waiting.inbox_id, approved, None)


async def take_answer(
    session: Session, said: GivenAnswer | None, user: ResolvedUser, conversation_id: int, turn_id: int
) -> DecisionResult | None:
    """Return what an answer comes to in this turn; None when there is no question: a message like any other.

    The question stays locked; `note_answer` belongs into the same transaction.
    """
    if said is None:
        return None
    given = {
        "conversation_id": conversation_id,
        "user_id": user.id,
        "turn_id": turn_id,
        "inbox_id": said.inbox_id,
        "id": said.confirmation_id,
    }
    row = (await session.execute(FIND, given)).one_or_none()
    if row is None:
        return DecisionResult(refusal=ConfirmationClosed()) if said.confirmation_id is not None else None
    match evaluate(said, row):
        case "ordinary":
            return None
        case "closed":
            return DecisionResult(refusal=ConfirmationClosed())
        case "expired":
            return DecisionResult(refusal=ConfirmationExpired(), confirmation_id=row.id, status="expired")
        case "again":
            asked = (row.call_id, row.tool, row.arguments, row.question, row.reason, row.agent, row.approver_level)
            return DecisionResult(again=Question(*asked))
        case "agreed" if said.approved_by is None and lacks_level(user.permission, row.approver_level):
            return DecisionResult(refusal=ApprovalNeeded(level=row.approver_level))
        case verdict:
            status = "approved" if verdict == "agreed" else "denied"
            call = _to_call(verdict, row)
            return DecisionResult(call, confirmation_id=row.id, status=status, approved_by=said.approved_by)


def lacks_level(permission: Permission, wanted: str | None) -> bool:
    """Tell whether a permission is too low for the yes that a question needs."""
    return wanted is not None and permission < Permission.from_label(wanted)


async def note_answer(session: Session, taken: DecisionResult | None, turn_id: int) -> None:
    """Write down what became of the question, once the turn of the answer has begun."""
    if taken is not None and taken.confirmation_id is not None:
        if taken.status == "expired":
            await session.execute(EXPIRE, {"id": taken.confirmation_id})
            return
        given = {"id": taken.confirmation_id, "status": taken.status, "approved_by": taken.approved_by}
        await session.execute(ANSWER, given | {"turn_id": turn_id})


def evaluate(said: GivenAnswer, row: Any) -> Evaluation:
    """Return what an answer means for the question that was found (a row of `FIND`).

    A word answers only what was the last thing said to this person here: a yes may be meant for something else. A
    message that came in before the question was asked answers nothing.
    """
    is_named = said.confirmation_id is not None
    is_meant = is_named or row.is_last
    if row.is_after and row.is_fresh and row.status == "pending":
        if not said.approved:
            return "denied"
        return "agreed" if is_meant else "again"
    if row.is_after and not row.is_fresh and row.status in ("pending", "expired") and is_meant:
        return "expired"
    return "closed" if is_named else "ordinary"


def _to_call(verdict: Literal["agreed", "denied"], row: Any) -> tuple[Step, ...]:
    # As if a model had made the call; the id says what became of it, and only the house gives ids.
    call = Step(
        seq=2,
        role="tool_call",
        content=row.arguments,
        token_count=count_tokens(row.arguments) + count_tokens(row.tool),
        tool_call_id=f"{verdict}_{row.id}",
        tool_name=row.tool,
    )
    return (Step(seq=1, role="assistant", content=""), call)


def read_call_id(call_id: str | None) -> tuple[str, int] | None:
    """Return what was answered ("agreed" or "denied") and to which question; None for a call that a model made."""
    found = ANSWERED_CALL.fullmatch(call_id or "")
    return (found[1], int(found[2])) if found else None


@dataclass(frozen=True, slots=True)
class Agreed:
    """What the person has said yes to, and the agent whose call it is."""

    question: str
    agent: str | None


async def consume(database: Database, key: TurnKey, confirmation_id: int) -> Agreed | None:
    """Spend a yes on its call, which may begin then.

    None when it is spent, or another attempt runs the turn: whether the call was run before is not known then.
    """
    given = {"id": confirmation_id, "turn_id": key.id, "attempt": key.attempt}
    async with database.statement() as session:
        row = (await session.execute(USE, given)).one_or_none()
    return None if row is None else Agreed(row.question, row.agent)


async def close_questions(session: Session, conversation_id: int) -> None:
    """Close what is open in a place: a later yes there is a message like any other."""
    await session.execute(CLOSE, {"conversation_id": conversation_id})


async def begin_asking(session: Session, question: Question, user_id: int, conversation_id: int) -> NewQuestion:
    """Close the person's older question in this place; return the row of the new one, made when the turn ends."""
    place = {"user_id": user_id, "conversation_id": conversation_id}
    return NewQuestion(
        id=(await session.execute(BEGIN_ASKING, place)).scalar_one(),
        call_id=question.call_id,
        tool=question.tool,
        arguments=question.arguments,
        arguments_hash=hashlib.sha256(question.arguments.encode()).hexdigest(),
        question=question.text,
        reason=question.reason,
        agent=question.agent,
        approver_level=question.approver,
    )


def tell_outcome(steps: Sequence[Step]) -> str:
    """Return in a sentence what became of the call that was agreed to or denied; empty when there is none."""
    call = next((step for step in steps if read_call_id(step.tool_call_id) is not None), None)
    result = next(
        (step for step in steps if call and step.seq > call.seq and step.tool_call_id == call.tool_call_id), None
    )
    if call is None or result is None:
        return ""
    plain = result.value
    failed = isinstance(plain, dict) and plain.get("error") is True
    if str(call.tool_call_id).startswith("denied"):
        return prompts().confirmation.not_done.format(tool=call.tool_name)
    if failed:
        return prompts().confirmation.failed.format(tool=call.tool_name, message=plain.get("message", ""))
    return prompts().confirmation.done.format(tool=call.tool_name)
