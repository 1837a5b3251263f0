"""The end of a turn: its result, and one statement that stores the last step, payment, reply and inbox rows."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from agent.journal.responses import to_calls_made
from agent.journal.steps import Entry, Event, Step
from agent.people.billing.budget import to_json
from agent.prompts import prompts
from agent.queue.inbox import READ_BY_CALLER
from agent.queue.outbox import LEASE_SECONDS, Claim, Reply, boot_seconds, to_delivery
from agent.tools.outcomes import ApprovalRequest, list_file_ids
from agent.turn.confirmations.questions import CHOICES, combine_questions
from agent.turn.confirmations.rows import NewQuestion, reserve_question
from agent.turn.modes import Mode, ModelTurn
from agent.turn.policies.calls import check_circuit
from agent.turn.running import RunningTurn
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import Superseded
from shared.files.storage import Storage
from shared.messages import AgentResponse, AskedConfirmation, ReplyFile, find_command_label, to_fields
from shared.redaction import redact_text
from shared.text import count_tokens, to_command_line, with_closed_fence, write_json

statements = load_statements(__file__)

LONG_CHARS = 20_000
# A choice that looks like a command would give one.
BEFORE_COMMAND = re.compile(r"^[\s/]+")

Status = Literal["answered", "refused", "failed", "cancelled"]


class TurnResult(Struct, frozen=True):
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


class ClosedTurn(Struct, frozen=True):
    """The stored reply of a turn, and the confirmation that it asks for, if any.

    `has_next` tells whether the next turn of the place waits, now that the job has ended; None if it has not.
    """

    reply: Reply
    confirmation_id: int | None
    has_next: bool | None


def find_end(turn: RunningTurn, mode: Mode) -> TurnResult | None:
    """Return the result of a turn that has ended; None when the model is asked next.

    It ends with an approval request, with a tool that `ends_turn`, or with a plan whose calls all succeeded.
    """
    log = turn.log
    if not log.answers:
        return None
    check_circuit(log.steps)
    if question := combine_questions(log.last_results):
        return to_question(turn, question)
    for step in log.last_results:
        tool = turn.offer.find(step.tool.name)
        plain = step.value if tool is not None and tool.ends_turn and step.tool.outcome == "result" else None
        if not isinstance(plain, dict) or not isinstance(plain.get("message"), str):
            continue
        if plain["message"].strip():
            options = plain.get("options")
            choices = tuple(without_command(str(option)) for option in options) if isinstance(options, list) else ()
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
        text = f"{to_limit_notice(turn)}\n\n{text}".strip()
    return TurnResult(
        text or prompts().turn.empty,
        thinking=answer.thinking,
        finished=not is_last and not is_cut,
        file_ids=list_file_ids(turn.log.steps) if turn.log.answers else (),
    )


def to_limit_notice(turn: RunningTurn) -> str:
    """Return what the answer of a turn without waves left begins with."""
    return prompts().turn.limit_reached.format(steps=turn.persona.max_iterations)


async def close(database: Database, storage: Storage, turn: RunningTurn, answer: TurnResult) -> ClosedTurn:
    """End the turn and its job with this answer, write journal, ledger, outbox and inbox, and return the stored reply.

    Raises `Superseded` when another attempt has taken over the turn: nothing is written, and nothing may be sent.
    """
    turn.announcer.flush(is_end=True)
    # Who reads the reply from the database needs no sender: for them the commit is the delivery.
    is_sent = turn.message.adapter not in READ_BY_CALLER
    claimed_at = boot_seconds() if is_sent else 0.0
    answer = await filtered(turn, answer)
    question: NewQuestion | None = None
    async with database.transaction() if answer.question else database.statement() as session:
        if answer.question is not None:
            question = await reserve_question(session, answer.question)
        files: list[ReplyFile] = []
        if answer.file_ids:
            owner = {"user_id": turn.user.id, "conversation_id": turn.conversation.id}
            result = await session.execute(statements.list_visible_files, owner | {"ids": list(answer.file_ids)})
            rows: dict[int, Any] = {row.id: row for row in result.all()}
            name = turn.announcer.outflow.without_secrets
            files = [
                ReplyFile(file.file_id, name(file.filename), file.mime_type, size_bytes=file.size_bytes, url=file.url)
                for file in (storage.describe(rows[file_id]) for file_id in answer.file_ids if file_id in rows)
            ]
        reply = Reply(
            id=0,
            turn_id=turn.key.id,
            adapter=turn.message.adapter,
            place=turn.message.place,
            reply_to=turn.message.platform_message_id or turn.message.event_id,
            content=answer.text,
            files=tuple(files),
            choices=answer.choices,
        )
        confirmation_id = question.id if question else None
        events = _last_events(turn, answer, files=reply.files, confirmation_id=confirmation_id)
        row = reply.to_row(LEASE_SECONDS if is_sent else None)
        ended = await end_turn(session, turn, answer, events=events, reply=row, question=question)
    if not is_sent or turn.message.wants_stream:
        turn.announcer.announce(is_end=True)
    reply = replace(reply, id=ended.reply_id)
    # Without a claim the sweeper sends it, when its turn has come.
    if is_sent and ended.is_claimed:
        claim = Claim(database, reply.id, number=0, made_at=claimed_at)
        delivery = to_delivery(ended, answer.status)
        # The statement that stored the question could not see it.
        delivery = replace(delivery, has_open_question=question is not None or delivery.has_open_question)
        reply = replace(reply, delivery=delivery, claim=claim)
    return ClosedTurn(reply, confirmation_id, ended.has_next)


async def end_turn(
    session: Session,
    turn: RunningTurn,
    answer: TurnResult,
    *,
    events: Sequence[Event],
    reply: Mapping[str, Any] | None = None,
    question: NewQuestion | None = None,
) -> Any:
    """Close a turn: store its last step, payment, reply and question, and mark its inbox rows as finished.

    Returns a row with the `reply_id`, None without a reply, and what its delivery depends on.

    A child turn has no reply and no job: the parent turn reads its answer. Raises `Superseded` when another attempt has
    taken over the turn: nothing is written, and nothing may be sent.
    """
    seq, tokens = 1 + max(step.seq for step in turn.log.steps), count_tokens(answer.text)
    step = Step(seq, "assistant", answer.text, token_count=tokens, model_used=turn.spend.model)
    # Why the turn went as it did, for `turn_contexts`: names, numbers and ids, no text of people.
    parameters = Entry([step], events).to_parameters() | {
        "turn_id": turn.key.id,
        "attempt": turn.key.attempt,
        "status": answer.status,
        "finished": answer.finished,
        "waves": turn.log.waves,
        "error": answer.error,
        "cause": None if answer.cause is None else redact_text(answer.cause),
        "calls": to_json(turn.spend.unpaid),
        "reply": None if reply is None else write_json(dict(reply)),
        "question": json.dumps(asdict(question)) if question else None,
        # Where the reply has to be sent, the job ends behind it: the next reply of the place must not overtake it.
        "job_id": turn.start.job_id if turn.message.adapter in READ_BY_CALLER else None,
        "reasons": write_json(
            {
                **(turn.log.reasons or {}),
                "persona": {"chosen_by": turn.persona.choice.by},
                "tools": turn.offer.reasons,
                **turn.spend.decisions.describe(),
            }
        ),
        "is_remembered": reply is not None and turn.message.is_remembered,
    }
    row = (await session.execute(statements.close_turn, parameters)).one_or_none()
    if row is None:
        raise Superseded
    return row


async def filtered(turn: RunningTurn, answer: TurnResult) -> TurnResult:
    """Return the result as it may be sent; every reply is made from what this returns."""
    outflow = turn.announcer.outflow
    # A hostile text takes 2 ms for 1,000 characters; other turns need not wait for a long one.
    is_short = len(answer.text) <= LONG_CHARS
    text = outflow.filtered(answer.text) if is_short else await asyncio.to_thread(outflow.filtered, answer.text)
    # What the filter removes may have hidden a command; those of the program are such before.
    choices = tuple(
        choice if find_command_label(choice) else without_command(outflow.filtered(choice)) for choice in answer.choices
    )
    return replace(answer, text=text, choices=choices)


def without_command(choice: str) -> str:
    """Return a choice that a model offers so that it gives no command: nothing before its first word."""
    while (line := to_command_line(choice)) is not None:
        choice = BEFORE_COMMAND.sub("", line)
    return choice


def count_iterations(turn: RunningTurn) -> int:
    """Return the number of model calls of a turn that ends, including an unpaid one that has no step yet."""
    return turn.log.model_calls + (1 if turn.spend.unpaid else 0)


def to_response(turn: RunningTurn, answer: TurnResult, closure: ClosedTurn) -> AgentResponse:
    """Convert the result to the response for the caller of the turn, without querying the database."""
    return AgentResponse(
        turn_id=turn.key.id,
        content=closure.reply.content,
        files=closure.reply.files,
        tool_calls_made=to_calls_made(turn.log.in_order) if turn.log.answers else (),
        finished=answer.finished,
        iterations=count_iterations(turn),
        model=turn.spend.model,
        usage=turn.spend.usage,
        error=answer.error,
        confirmation=None if closure.confirmation_id is None else AskedConfirmation(closure.confirmation_id),
        conversation_id=turn.conversation.id,
        action=find_action(turn),
    )


def find_action(turn: RunningTurn) -> str | None:
    """Return what the last plan of the turn was about, as it may be sent."""
    action = turn.log.action if turn.loop_mode == "planner" else None
    return None if action is None else turn.announcer.outflow.filtered(action)


def _last_events(
    turn: RunningTurn, answer: TurnResult, files: Sequence[ReplyFile], confirmation_id: int | None
) -> list[Event]:
    labels = {choice: label for choice in answer.choices if (label := find_command_label(choice))}
    options = [choice for choice in answer.choices if choice not in labels]
    choices: dict[str, Any] = {"choices": options} if options else {}
    if labels:
        choices["commands"] = [{"label": label, "line": line} for line, label in labels.items()]
    if confirmation_id is not None:
        choices["confirmation"] = {"id": confirmation_id}
    action = find_action(turn)
    return [
        *turn.announcer.thinking(answer.thinking),
        turn.announcer.event("message", content=answer.text, files=[to_fields(file) for file in files], **choices),
        turn.announcer.event(
            "turn_complete",
            iterations=count_iterations(turn),
            usage=to_fields(turn.spend.usage),
            finished=answer.finished,
            error=answer.error,
            model=turn.spend.model,
            **({} if action is None else {"action": action}),
        ),
    ]
