"""How a turn ends: the last step, the payment, the reply and the end of its messages, in one statement."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import text

from agent.app import App
from agent.billing.ledger import PaidCall
from agent.confirmations.decisions import Question, begin_asking
from agent.journal.records import Entry
from agent.journal.responses import to_calls_made
from agent.journal.steps import Event, Step
from agent.journal.turns import Ending, NewQuestion, NewReply, Status, end_turn
from agent.llm.tokens import count_tokens
from agent.queue.outbox import Reply, claimed_seconds
from agent.turn.open import RunningTurn
from shared.db.driver import Session
from shared.files.storage import VISIBLE_FILES
from shared.messages import AgentResponse, AskedConfirmation, ReplyFile, Usage

STORED_FILES = text(f"""
SELECT id, filename, mime_type, size_bytes FROM file_records
WHERE id = ANY(:ids) AND user_id = :user_id AND status = 'stored' AND {VISIBLE_FILES}
""")


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a turn comes to. `calls` are the model calls that are not paid yet; `usage` is that of the whole turn."""

    text: str
    steps: tuple[Step, ...]
    calls: tuple[PaidCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    iterations: int = 0
    waves: int = 0
    model: str | None = None
    thinking: str = ""
    status: Status = "answered"
    finished: bool = True
    error: str | None = None
    cause: str | None = None
    file_ids: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    question: Question | None = None


async def close(app: App, turn: RunningTurn, answer: TurnResult) -> Reply:
    """End the turn with this answer: journal, ledger, outbox and inbox in one statement.

    Raises `Superseded` when another attempt runs the turn: then nothing is written and nothing may be sent.
    """
    await turn.announcer.flush()
    message = turn.message
    question: NewQuestion | None = None
    async with app.database.transaction() if answer.question else app.database.statement() as session:
        if answer.question is not None:
            question = await begin_asking(session, answer.question, turn.user.id, turn.conversation.id)
        files = await _find_files(app, session, turn, answer.file_ids)
        last = Step(
            seq=1 + max(step.seq for step in answer.steps),
            role="assistant",
            content=answer.text,
            token_count=count_tokens(answer.text),
            model_used=answer.model,
        )
        confirmation_id = question.id if question else None
        events = _last_events(turn, answer, files, confirmation_id)
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
            Entry([last], events, turn.announcer.note(is_end=True)),
            ending=to_ending(answer),
            reply=reply,
            question=question,
        )
    return Reply(
        id=ended.reply_id,
        turn_id=turn.key.id,
        adapter=reply.adapter,
        place=reply.place,
        reply_to=reply.reply_to,
        live_message_id=ended.live_message_id,
        content=reply.content,
        files=reply.files,
        choices=reply.choices,
        confirmation_id=confirmation_id,
    )


def to_ending(answer: TurnResult) -> Ending:
    """Return what the database is told of the end."""
    return Ending(
        status=answer.status,
        finished=answer.finished,
        waves=answer.waves,
        error=answer.error,
        cause=answer.cause,
        calls=answer.calls,
    )


def to_response(turn: RunningTurn, answer: TurnResult, reply: Reply) -> AgentResponse:
    """Return what the callers of a turn are told, without reading it back."""
    return AgentResponse(
        turn_id=turn.key.id,
        content=reply.content,
        files=reply.files,
        tool_calls_made=to_calls_made(sorted(answer.steps, key=lambda step: step.seq)),
        finished=answer.finished,
        iterations=answer.iterations,
        model=answer.model,
        usage=answer.usage,
        error=answer.error,
        confirmation=None if reply.confirmation_id is None else AskedConfirmation(reply.confirmation_id),
    )


async def _find_files(app: App, session: Session, turn: RunningTurn, file_ids: Sequence[int]) -> list[ReplyFile]:
    if not file_ids:
        return []
    given = {"ids": list(file_ids), "user_id": turn.user.id, "conversation_id": turn.conversation.id}
    records = {row.id: row for row in (await session.execute(STORED_FILES, given)).all()}
    described = [app.storage.describe(records[file_id]) for file_id in file_ids if file_id in records]
    return [ReplyFile(each.file_id, each.filename, each.mime_type, each.size_bytes, each.url) for each in described]


def _last_events(
    turn: RunningTurn, answer: TurnResult, files: Sequence[ReplyFile], confirmation_id: int | None
) -> list[Event]:
    usage = answer.usage
    choices: dict[str, Any] = {"choices": list(answer.choices)} if answer.choices else {}
    if confirmation_id is not None:
        choices["confirmation"] = {"id": confirmation_id}
    return [
        *turn.announcer.thinking(answer.thinking),
        turn.announcer.event("message", content=answer.text, files=[asdict(each) for each in files], **choices),
        turn.announcer.event(
            "turn_complete",
            iterations=answer.iterations,
            usage=asdict(usage),
            finished=answer.finished,
            error=answer.error,
            model=answer.model,
        ),
    ]
