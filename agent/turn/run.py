"""Runs one turn from the stored message to the delivered reply, and stops running turns on request."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace

from sqlalchemy import text

from agent.journal.lookups import count_calls
from agent.journal.records import settle
from agent.journal.steps import PastStep, TurnKey
from agent.live.announcer import LiveTurn, shown_live
from agent.live.channels import CANCELLATIONS
from agent.llm.cooldowns import to_cause_lines
from agent.people.billing.budget import AdmissionStatus, PaidCall
from agent.people.pauses import to_refusal
from agent.prompts import prompts
from agent.queue.job import Job
from agent.tools.calls import Taint
from agent.tools.made_files import list_file_ids
from agent.turn.attachments import store_files, transcribe_recordings
from agent.turn.close import TurnResult, close, count_iterations, to_question, to_response
from agent.turn.context.attachments import (
    FailedFile,
    drop_pending,
    with_failed_files,
    with_failed_notice,
    with_unopened_notice,
)
from agent.turn.context.builder import Context, PromptParts, build_context, names_files
from agent.turn.context.images import PromptImages, load_images
from agent.turn.context.recordings import Unheard, with_unheard, with_unheard_notice
from agent.turn.context.replied_to import find_replied_to
from agent.turn.context.requests import check_temperature, of_request, to_instructions
from agent.turn.loop import respond
from agent.turn.open import Opening, open_turn
from agent.turn.policies.taint import TurnTaint
from agent.turn.resume import resume
from agent.turn.running import Cancellations, RunningTurn
from agent.turn.services import TurnServices
from shared.credentials.typed import had_typed
from shared.db.database import Database, DatabaseLost
from shared.db.retries import retry_on_lost_db
from shared.errors import (
    BudgetExhausted,
    LimitExhausted,
    ModelsUnavailable,
    ParleyError,
    Refusal,
    ServerBudgetExhausted,
    Stopped,
    TurnTimedOut,
    Unavailable,
)
from shared.log import get_logger
from shared.messages import AGENT_ADAPTERS, Place
from shared.permissions import Permission
from shared.text import with_closed_fence
from shared.tracing.spans import Attributes, span, span_of

MAX_FAILURES = 3
CLOSING_SECONDS = 30
USED_UP = (BudgetExhausted, ServerBudgetExhausted, LimitExhausted)
ASK_FOR_MORE = ("/more",)

log = get_logger()

HAND_OVER = text("""
UPDATE turns SET handovers = handovers + 1 WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
RETURNING id
""")

STOP = text(f"""
WITH stopped AS (
    UPDATE turns SET stop_requested = true FROM conversations
    WHERE conversations.id = turns.conversation_id AND turns.status = 'running' AND conversations.platform = :platform
      AND conversations.platform_server_id IS NOT DISTINCT FROM :server AND conversations.platform_channel_id = :channel
      AND conversations.platform_thread_id IS NOT DISTINCT FROM :thread
      AND (CAST(:user_id AS bigint) IS NULL OR turns.user_id = :user_id)
    RETURNING turns.id
)
SELECT pg_notify('{CANCELLATIONS}', CAST(id AS text)) FROM stopped
""")


async def run_turn(services: TurnServices, job: Job, cancellations: Cancellations) -> None:
    """Run the next turn in the job's place and deliver its reply; returns at once when there is no turn to run.

    Raises `Superseded` when another worker has taken over the turn, and `DatabaseLost` when the turn must be retried.
    Unexpected exceptions propagate.
    """
    turn = await open_turn(services, job)
    if isinstance(turn, Opening):
        turn = await resume(services, turn)
    if turn is None:
        return
    seconds = services.clock.monotonic() - turn.start.began
    # Messages that were answered together share the trace of the first one.
    first = min(turn.request.inbox_ids)
    with span_of(first, "invoke_agent", _describe(turn), seconds=seconds) as opened:
        answer = await _run(services, job, turn, cancellations=cancellations)
        opened.note(
            {
                "parley.status": answer.status,
                "gen_ai.response.model": turn.spend.model,
                "gen_ai.usage.input_tokens": turn.spend.usage.input_tokens,
                "gen_ai.usage.output_tokens": turn.spend.usage.output_tokens,
            }
        )
        if answer.error is not None:
            opened.fail(answer.error)


async def _run(services: TurnServices, job: Job, turn: RunningTurn, cancellations: Cancellations) -> TurnResult:
    database, storage = services.database, services.files.storage
    inbox_ids = turn.request.inbox_ids
    try:
        with services.events.running_here(inbox_ids):
            view = LiveTurn(database, turn.key, turn.message)
            async with shown_live(services.outbox.senders.get(turn.message.adapter), view, turn.announcer):
                answer = await answer_turn(services, turn, cancellations=cancellations, last_error=job.last_error)
            closed = await retry_on_lost_db(lambda: close(database, storage, turn=turn, answer=answer), CLOSING_SECONDS)
            # What attempts before this one did is known to the tables alone.
            services.events.finish(inbox_ids, to_response(turn, answer, closed) if turn.key.attempt == 1 else None)
    except asyncio.CancelledError:
        # Without the database, another worker takes over the turn once this worker's lease has expired.
        with suppress(DatabaseLost):
            await asyncio.shield(hand_over(database, turn.key, turn.spend.unpaid))
        raise
    finally:
        # After an error, the next attempt of this job pays for the calls.
        job.unpaid[turn.key] = turn.spend.unpaid
    closed_at = services.clock.monotonic()
    if closed.reply.claim is not None:
        await services.outbox.deliver(closed.reply)
    _log_end(services, turn, answer, closed_at=closed_at)
    if turn.request.files:
        with suppress(DatabaseLost):
            await drop_pending(database, storage, turn_id=turn.key.id, files=turn.request.files)
    return answer


def _describe(turn: RunningTurn) -> Attributes:
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": None if turn.persona.id is None else str(turn.persona.id),
        "gen_ai.agent.name": turn.persona.name,
        "gen_ai.conversation.id": str(turn.conversation.id),
        "parley.turn.id": turn.key.id,
        "parley.turn.attempt": turn.key.attempt,
        "parley.user.id": turn.user.id,
        "parley.adapter": turn.message.adapter,
    }


def _log_end(services: TurnServices, turn: RunningTurn, answer: TurnResult, *, closed_at: float) -> None:
    # The one line of a turn: ids and numbers, no text.
    ended, timings, place = services.clock.monotonic(), turn.start.timings, turn.message.place
    log.info(
        "turn_finished",
        turn=turn.key.id,
        attempt=turn.key.attempt,
        inbox=list(turn.request.inbox_ids),
        user=turn.user.id,
        adapter=turn.message.adapter,
        platform=place.platform,
        server=place.server,
        channel=place.channel,
        thread=place.thread,
        conversation=turn.conversation.id,
        persona=turn.persona.id,
        status=answer.status,
        finished=answer.finished,
        error=answer.error,
        mode=turn.loop_mode,
        steps=count_iterations(turn),
        waves=turn.log.waves,
        tools=_count_tools(turn),
        route=turn.spend.model,
        tokens=turn.spend.usage.total,
        cost=turn.spend.usage.cost,
        seconds=round(ended - turn.start.began, 3),
        context_seconds=round(timings.context, 3),
        model_seconds=round(timings.model, 3),
        tool_seconds=round(timings.tools, 3),
        delivery_seconds=round(ended - closed_at, 3),
    )


def _count_tools(turn: RunningTurn) -> dict[str, int]:
    # A name that the model made up may hold anything.
    names = (step.tool.name for step in turn.log.steps if step.role == "tool_call")
    return dict(Counter(name if turn.offer.find(name) is not None else "unknown" for name in names))


async def answer_turn(
    services: TurnServices, turn: RunningTurn, cancellations: Cancellations, last_error: str | None
) -> TurnResult:
    """Return the result of the turn: the model's answer, or a message that says why there is none.

    Fails the turn without running it when it has failed `MAX_FAILURES` times. Raises `DatabaseLost`.
    """
    if turn.start.failures >= MAX_FAILURES:
        cause = f"failed {turn.start.failures} times; last: {last_error or 'the worker died'}"
        return TurnResult(prompts().turn.parked, status="failed", finished=False, error="parked", cause=cause)
    taint = TurnTaint(
        services.database,
        services.toolbox,
        participants=turn.participants,
        message=turn.message,
        history=turn.request.history,
        shown=turn.request.taint | (Taint.NONE if turn.message.request is None else of_request(turn.message.request)),
        said=turn.request.said,
    )
    result = await _answer(services, turn, cancellations, taint=taint)
    if turn.log.reasons is not None:
        reads_untrusted = Taint.UNTRUSTED in taint.find_shown(turn.log)
        turn.log.keep_reasons({**turn.log.reasons, "reads_untrusted": reads_untrusted})
    if turn.announcer.outflow.depends_on_hosts(result.text):
        await taint.restrict(turn.announcer.outflow, turn.log, turn.offer.instructions)
    return result


async def _answer(
    services: TurnServices, turn: RunningTurn, cancellations: Cancellations, taint: TurnTaint
) -> TurnResult:
    try:
        async with asyncio.timeout(turn.deadline - services.clock.monotonic()), cancellations.watch(turn.key.id):
            return await _work(services, turn, taint)
    except TimeoutError:
        return _interrupted(turn, TurnTimedOut())
    except DatabaseLost:
        raise
    except (Refusal, Unavailable) as error:
        return _interrupted(turn, error)


async def hand_over(database: Database, key: TurnKey, unpaid: Sequence[PaidCall] = ()) -> None:
    """Release a turn so that another worker can continue it, without counting the attempt as a failure.

    Pays for the interrupted model call and releases the rest of the reservation.
    """
    async with database.transaction() as session:
        is_ours = (await session.execute(HAND_OVER, {"turn_id": key.id, "attempt": key.attempt})).all()
        if is_ours:
            await settle(session, key, unpaid)


async def _work(services: TurnServices, turn: RunningTurn, taint: TurnTaint) -> TurnResult:
    decision, due_job = turn.start.decision, turn.message.due_job
    if turn.start.is_stopped:
        raise Stopped
    if due_job is not None and due_job.notice is not None:
        return TurnResult(due_job.notice, choices=due_job.choices)
    if turn.participants.is_paused:
        raise to_refusal(is_person_paused=turn.user.is_paused)
    if had_typed(turn.message.content):
        return TurnResult(prompts().turn.credential_typed)
    if decision is not None and decision.refusal is not None:
        raise decision.refusal
    if decision is not None and decision.again is not None:
        return to_question(turn, decision.again, again=True)
    if turn.spend.admission.status is AdmissionStatus.EXHAUSTED and not turn.log.answers:
        raise turn.spend.admission.refusal()
    failed = await store_files(services, turn) if turn.request.files else []
    unheard = await transcribe_recordings(services, turn) if turn.message.attachments else []
    with span("build_context", {}), turn.start.timings.measure("context", services.clock):
        context = await _build_context(services, turn, failed, unheard=unheard)
    turn.log.keep_reasons(context.reasons)
    if services.models.router.counts_calls and turn.spend.numbers is None:
        async with services.database.statement() as session:
            turn.spend.number_calls(await count_calls(session, turn.conversation.id, turn.key.id))
    result = await respond(services, turn, context, taint=taint)
    if failed or unheard:
        result = replace(result, text=with_unheard_notice(with_failed_notice(result.text, failed), unheard))
    return replace(result, text=with_unopened_notice(result.text, turn.log.steps, services.files.storage.sandbox.fault))


async def _build_context(
    services: TurnServices, turn: RunningTurn, failed: Sequence[FailedFile], unheard: Sequence[Unheard]
) -> Context:
    written = turn.log.message
    if failed or unheard:
        written = replace(written, content=with_unheard(with_failed_files(written.content, failed), unheard))
    message, history = PastStep(turn.key.id, turn.user.id, written), turn.request.history
    naming = [(each.turn_id, each.step) for each in (*history, message) if names_files(each.step)]
    # Most messages reply to none.
    replied_to = None
    if turn.message.replied_to is not None:
        replied_to = await find_replied_to(
            services.database, turn.message, history, user_id=turn.user.id, conversation=turn.conversation
        )
    request, instructions = turn.message.request, turn.offer.instructions
    if request is not None:
        check_temperature(request, turn.persona.max_temperature)
        instructions = "\n\n".join(filter(None, (instructions, to_instructions(request))))
    parts = PromptParts(
        user=turn.user,
        persona=turn.persona,
        conversation=turn.conversation,
        history=history,
        message=message,
        images=await load_images(services.database, services.files.images, naming) if naming else PromptImages(),
        instructions=instructions,
        platform_context=turn.message.platform_context,
        replied_to=replied_to,
    )
    limit = services.settings.memory_recall_limit
    return await build_context(services.memory, services.clock, parts, recall_limit=limit)


def _interrupted(turn: RunningTurn, error: ParleyError) -> TurnResult:
    # Keeps the text that the model has written so far, and adds a sentence with the reason for the interruption.
    result = TurnResult(str(error), finished=False, error=error.code, file_ids=list_file_ids(turn.log.steps))
    if isinstance(error, Stopped):
        return replace(result, text=f"{with_closed_fence(turn.log.partial)}\n\n{error}".strip(), status="cancelled")
    if isinstance(error, USED_UP) and turn.message.adapter not in AGENT_ADAPTERS:
        result = replace(result, choices=ASK_FOR_MORE)
    if isinstance(error, Refusal) and not turn.log.answers:
        return replace(result, status="refused")
    sentence = prompts().turn.ended_in_mid_turn.format(sentence=error) if isinstance(error, Refusal) else str(error)
    cause = str(error.__cause__) if error.__cause__ else None
    if isinstance(error, ModelsUnavailable):
        cause = to_cause_lines(error.fields["causes"])
        if turn.user.permission >= Permission.ADMIN:
            sentence += f"\n\n{prompts().turn.model_failures.format(causes=cause)}"
    return replace(
        result,
        text=f"{with_closed_fence(turn.log.partial)}\n\n{sentence}".strip(),
        status="answered" if isinstance(error, Refusal) else "failed",
        cause=cause,
    )


async def request_stop(database: Database, place: Place, user_id: int | None) -> bool:
    """Request that the running turn in a place stops; returns whether there was one.

    With `user_id` only a turn of this user is stopped, with None the turn of any user.
    """
    async with database.transaction() as session:
        return bool((await session.execute(STOP, asdict(place) | {"user_id": user_id})).all())
