"""The end of a turn: its result, and one statement that stores the last step, payment, reply and inbox rows."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import text

from agent.confirmations.questions import CHOICES, find_question
from agent.confirmations.rows import add_question
from agent.journal.responses import to_calls_made
from agent.journal.steps import Event, Step
from agent.journal.turns import Ending, Entry, NewQuestion, NewReply, Status, end_turn
from agent.llm.tokens import count_tokens
from agent.policies import circuit_breaker
from agent.prompts import prompts
from agent.queue.outbox import Claim, Reply, boot_seconds, claimed_seconds
from agent.tools.made_files import list_file_ids
from agent.tools.outcomes import ApprovalRequest
from agent.turn.modes import Mode, ModelTurn
from agent.turn.running import RunningTurn
from shared.db.database import Database
from shared.db.driver import Session
from shared.files.storage import VISIBLE_FILES, Storage
from shared.messages import AgentResponse, AskedConfirmation, ReplyFile, find_command_label
from shared.text import with_closed_fence

STORED_FILES = text(f"""
SELECT id, filename, mime_type, size_bytes FROM file_records
WHERE id = ANY(:ids) AND user_id = :user_id AND status = 'stored' AND {VISIBLE_FILES}
""")

LONG_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The result of a turn as the user sees it; its cost is in `Spend`, its steps are in `TurnLog`.

    `finished` is False when the answer is incomplete; `error` is an error code, `cause` a technical description of it.
    `question` is the request for approval that the turn ends with.
    """

    text: str
    thinking: str = ""
    status: Status = "answered"
    finished: bool = True
    error: str | None = None
    cause: str | None = None
    file_ids: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    question: ApprovalRequest | None = None


@dataclass(frozen=True, slots=True)
class ClosedTurn:
    """The stored reply of a turn, and the confirmation that it asks for, if any."""

    reply: Reply
    confirmation_id: int | None


def find_end(turn: RunningTurn, mode: Mode) -> TurnResult | None:
    """Return the result of a turn that has ended; None when the model is asked next.

    It ends with an approval request, with a tool that `ends_turn`, or with a plan whose calls all succeeded.
    """
    log = turn.log
    if not log.answers:
        return None
    circuit_breaker.check(log.steps)
    questions = [find_question(log.find_call(step.tool.call_id), step) for step in log.last_results]
    if question := next(filter(None, questions), None):
        return to_question(turn, question)
    for step in log.last_results:
        tool = turn.offer.find(step.tool.name)
        plain = step.value if tool is not None and tool.ends_turn and step.tool.outcome == "result" else None
        if not isinstance(plain, dict) or not isinstance(plain.get("message"), str):
            continue
        if plain["message"].strip():
            options = plain.get("options")
            # A choice that looks like a command would give one.
            choices = tuple(str(each).lstrip("/ ") for each in options) if isinstance(options, list) else ()
            return TurnResult(plain["message"], choices=choices, file_ids=list_file_ids(log.steps))
    response = mode.find_response(turn)
    return TurnResult(response, file_ids=list_file_ids(log.steps)) if response else None


def to_question(turn: RunningTurn, question: ApprovalRequest, *, again: bool = False) -> TurnResult:
    """Return the result of a turn that ends with a question.

    `again` asks a question once more, because it is unclear whether the user's yes was meant for it.
    """
    text = f"{prompts().confirmation.again}\n\n{question.shown}" if again else question.shown
    return TurnResult(text, choices=CHOICES, question=question, file_ids=list_file_ids(turn.log.steps))


def to_result(turn: RunningTurn, answer: ModelTurn) -> TurnResult:
    """Return the result of a turn that ends with this answer of the model."""
    is_last, is_cut = turn.waves_left <= 0, answer.stop == "max_tokens"
    text = with_closed_fence(answer.text.strip())
    if is_cut:
        text = f"{text}\n\n{prompts().turn.cut_note}".strip()
    if is_last:
        text = f"{prompts().turn.limit_reached.format(steps=turn.persona.max_iterations)}\n\n{text}".strip()
    return TurnResult(
        text or prompts().turn.empty,
        thinking=answer.thinking,
        finished=not is_last and not is_cut,
        file_ids=list_file_ids(turn.log.steps) if turn.log.answers else (),
    )


async def close(database: Database, storage: Storage, turn: RunningTurn, answer: TurnResult) -> ClosedTurn:
    """End the turn with this answer, write journal, ledger, outbox and inbox, and return the stored reply.

    Raises `Superseded` when another attempt has taken over the turn: nothing is written, and nothing may be sent.
    """
    await turn.announcer.flush()
    claimed_at = boot_seconds()
    message, answer = turn.message, await filtered(turn, answer)
    question: NewQuestion | None = None
    async with database.transaction() if answer.question else database.statement() as session:
        if answer.question is not None:
            question = await add_question(session, answer.question, turn.user.id, conversation_id=turn.conversation.id)
        files = await _find_files(session, storage, turn=turn, file_ids=answer.file_ids)
        confirmation_id = question.id if question else None
        events = _last_events(turn, answer, files=files, confirmation_id=confirmation_id)
        reply = NewReply(
            adapter=message.adapter,
            place=message.place,
            reply_to=message.platform_message_id or message.event_id,
            content=answer.text,
            files=tuple(files),
            choices=answer.choices,
            claimed_seconds=claimed_seconds(message.adapter),
        )
        ended = await end_turn(
            session,
            turn.key,
            Entry([to_last_step(turn, answer)], events, turn.announcer.note(is_end=True), reasons=to_reasons(turn)),
            ending=to_ending(turn, answer),
            reply=reply,
            question=question,
        )
    stored = Reply(
        id=ended.reply_id,
        turn_id=turn.key.id,
        adapter=reply.adapter,
        place=reply.place,
        reply_to=reply.reply_to,
        live_message_id=ended.live_message_id,
        content=reply.content,
        files=reply.files,
        choices=reply.choices,
        claim=Claim(database, ended.reply_id, number=0, made_at=claimed_at),
    )
    return ClosedTurn(stored, confirmation_id)


async def filtered(turn: RunningTurn, answer: TurnResult) -> TurnResult:
    """Return the result as it may be sent; every reply is made from what this returns."""
    outflow = turn.announcer.outflow
    # A hostile text takes 2 ms for 1,000 characters; other turns need not wait for a long one.
    is_short = len(answer.text) <= LONG_CHARS
    text = outflow.filtered(answer.text) if is_short else await asyncio.to_thread(outflow.filtered, answer.text)
    return replace(answer, text=text, choices=tuple(map(outflow.filtered, answer.choices)))


def to_ending(turn: RunningTurn, answer: TurnResult) -> Ending:
    """Convert the result to the end of the turn as the database stores it."""
    return Ending(
        status=answer.status,
        finished=answer.finished,
        waves=turn.log.waves,
        error=answer.error,
        cause=answer.cause,
        calls=turn.spend.unpaid,
    )


def to_reasons(turn: RunningTurn) -> dict[str, Any]:
    """Return why the turn went as it did, for `turn_contexts`: names, numbers and ids, no text of people."""
    return {
        **(turn.log.reasons or {}),
        "persona": {"chosen_by": turn.persona.choice.by},
        "tools": turn.offer.reasons,
        **turn.spend.decisions.describe(),
    }


def to_last_step(turn: RunningTurn, answer: TurnResult) -> Step:
    """Convert the answer to the last step of the turn's journal."""
    return Step(
        seq=1 + max(step.seq for step in turn.log.steps),
        role="assistant",
        content=answer.text,
        token_count=count_tokens(answer.text),
        model_used=turn.spend.model,
    )


def count_iterations(turn: RunningTurn) -> int:
    """Return the number of model calls of a turn that ends, including an unpaid one that has no step yet."""
    return turn.log.model_calls + (1 if turn.spend.unpaid else 0)


def to_response(turn: RunningTurn, answer: TurnResult, closed: ClosedTurn) -> AgentResponse:
    """Convert the result to the response for the caller of the turn, without querying the database."""
    return AgentResponse(
        turn_id=turn.key.id,
        content=closed.reply.content,
        files=closed.reply.files,
        tool_calls_made=to_calls_made(turn.log.in_order) if turn.log.answers else (),
        finished=answer.finished,
        iterations=count_iterations(turn),
        model=turn.spend.model,
        usage=turn.spend.usage,
        error=answer.error,
        confirmation=None if closed.confirmation_id is None else AskedConfirmation(closed.confirmation_id),
    )


async def _find_files(
    session: Session, storage: Storage, turn: RunningTurn, file_ids: Sequence[int]
) -> list[ReplyFile]:
    if not file_ids:
        return []
    given = {"ids": list(file_ids), "user_id": turn.user.id, "conversation_id": turn.conversation.id}
    records = {row.id: row for row in (await session.execute(STORED_FILES, given)).all()}
    described = [storage.describe(records[file_id]) for file_id in file_ids if file_id in records]
    name = turn.announcer.outflow.without_secrets
    return [
        ReplyFile(each.file_id, name(each.filename), each.mime_type, size_bytes=each.size_bytes, url=each.url)
        for each in described
    ]


def _last_events(
    turn: RunningTurn, answer: TurnResult, files: Sequence[ReplyFile], confirmation_id: int | None
) -> list[Event]:
    labels = {choice: label for choice in answer.choices if (label := find_command_label(choice))}
    offered = [choice for choice in answer.choices if choice not in labels]
    choices: dict[str, Any] = {"choices": offered} if offered else {}
    if labels:
        choices["commands"] = [{"label": label, "line": line} for line, label in labels.items()]
    if confirmation_id is not None:
        choices["confirmation"] = {"id": confirmation_id}
    return [
        *turn.announcer.thinking(answer.thinking),
        turn.announcer.event("message", content=answer.text, files=[asdict(each) for each in files], **choices),
        turn.announcer.event(
            "turn_complete",
            iterations=count_iterations(turn),
            usage=asdict(turn.spend.usage),
            finished=answer.finished,
            error=answer.error,
            model=turn.spend.model,
        ),
    ]
