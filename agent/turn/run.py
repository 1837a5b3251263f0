"""The page: one turn from the stored message to the delivered reply."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec import Struct

from agent.journal.records import settle
from agent.journal.steps import TurnKey
from agent.live.announcer import LiveTurn, shown_live
from agent.people.billing.budget import PaidCall
from agent.people.links import PAGE
from agent.queue.job import Job
from agent.tools.calls import Taint
from agent.turn.close import TurnResult, close, count_iterations, to_response
from agent.turn.context.attachments import drop_pending
from agent.turn.context.requests import of_request
from agent.turn.gates import GATES, interrupt, refuse
from agent.turn.loop import respond
from agent.turn.open import open_turn
from agent.turn.policies.taint import TurnTaint, to_taint
from agent.turn.prompt import build_prompt, with_notices
from agent.turn.running import Cancellations, RunningTurn
from agent.turn.services import TurnServices
from shared.db.database import Database, DatabaseLost, retry_on_lost_db
from shared.db.statements import load_statements
from shared.errors import Refusal, TurnTimedOut, Unavailable
from shared.log import get_logger
from shared.tracing.spans import span_of

CLOSING_SECONDS = 30

log = get_logger()

statements = load_statements(__file__)


async def run_turn(services: TurnServices, job: Job, cancellations: Cancellations) -> bool:
    """Run the next turn in the job's place and deliver its reply; returns whether it has ended the job.

    Raises `Superseded` when another worker has taken over the turn, and `DatabaseLost` when the turn must be retried.
    Unexpected exceptions propagate.
    """
    turn = await open_turn(services, job)
    if turn is None:
        return False
    database, storage, inbox_ids = services.database, services.files.storage, turn.request.inbox_ids
    async with running(services, job, turn) as end:
        view = LiveTurn(database, turn.key, turn.message)
        async with shown_live(services.outbox.senders.get(turn.message.adapter), view, turn.announcer):
            answer = await answer_turn(services, turn, cancellations)
        closure = await retry_on_lost_db(lambda: close(database, storage, turn=turn, answer=answer), CLOSING_SECONDS)
        end.answer, end.closed_at = answer, services.clock.monotonic()
        database.witness.turns.append((end.closed_at, turn.key.id, turn.spend.usage.cost))
        # What attempts before this one did is known to the tables alone.
        services.events.finish(inbox_ids, to_response(turn, answer, closure) if turn.key.attempt == 1 else None)
        if turn.message.adapter == PAGE:
            services.events.notifier.tell_list(turn.message.place)
        has_next = closure.has_next
        if closure.reply.claim is not None:
            has_next = await services.outbox.deliver(closure.reply, turn.start.job_id)
        if has_next:
            services.events.notifier.announce_job()
    if turn.request.files:
        with suppress(DatabaseLost):
            await drop_pending(database, storage, turn_id=turn.key.id, files=turn.request.files)
    return has_next is not None


async def answer_turn(services: TurnServices, turn: RunningTurn, cancellations: Cancellations) -> TurnResult:
    """Return the result of the turn: the model's answer, or a message that says why there is none.

    Raises `DatabaseLost`.
    """
    taint = TurnTaint(
        services.database,
        services.toolbox,
        participants=turn.participants,
        message=turn.message,
        history=turn.request.history,
        shown=turn.request.taint | (Taint.NONE if turn.message.request is None else of_request(turn.message.request)),
        said=turn.request.said,
    )
    try:
        async with asyncio.timeout(turn.deadline - services.clock.monotonic()), cancellations.watch(turn.key.id):
            answer = refuse(turn, GATES)
            if answer is None:
                prompt = await build_prompt(services, turn)
                context = prompt.context
                context_taint = to_taint(untrusted=context.shows_untrusted, private=context.shows_private)
                taint.show(context_taint, context.own_memories)
                answer = await respond(services, turn, context, taint=taint)
                answer = with_notices(services, turn, prompt, answer=answer)
    except TimeoutError:
        answer = interrupt(turn, TurnTimedOut())
    except DatabaseLost:
        raise
    except (Refusal, Unavailable) as error:
        answer = interrupt(turn, error)
    if turn.log.reasons is not None:
        reads_untrusted = Taint.UNTRUSTED in taint.find_shown(turn.log)
        turn.log.keep_reasons({**turn.log.reasons, "reads_untrusted": reads_untrusted})
    if turn.announcer.outflow.depends_on_hosts(answer.text):
        await taint.restrict(turn.announcer.outflow, turn.log, turn.offer.instructions)
    return answer


class TurnEnd(Struct):
    """How an attempt at a turn ended; `closed_at` is its time in seconds on the monotonic clock."""

    answer: TurnResult | None = None
    closed_at: float = 0.0


@asynccontextmanager
async def running(services: TurnServices, job: Job, turn: RunningTurn) -> AsyncIterator[TurnEnd]:
    """Trace the block and log its end in one line. A worker that stops meanwhile hands the turn over."""
    end, seconds = TurnEnd(), services.clock.monotonic() - turn.start.began
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.id": None if turn.persona.id is None else str(turn.persona.id),
        "gen_ai.agent.name": turn.persona.name,
        "gen_ai.conversation.id": str(turn.conversation.id),
        "parley.turn.id": turn.key.id,
        "parley.turn.attempt": turn.key.attempt,
        "parley.user.id": turn.user.id,
        "parley.adapter": turn.message.adapter,
    }
    # Messages that were answered together share the trace of the first one.
    with span_of(min(turn.request.inbox_ids), "invoke_agent", attributes, seconds=seconds) as trace:
        try:
            with services.events.running_here(turn.request.inbox_ids):
                yield end
        except asyncio.CancelledError:
            # Without the database, another worker takes over the turn once this worker's lease has expired.
            with suppress(DatabaseLost):
                await asyncio.shield(hand_over(services.database, turn.key, turn.spend.unpaid))
            raise
        finally:
            # After an error, the next attempt of this job pays for the calls.
            job.unpaid[turn.key] = turn.spend.unpaid
        if end.answer is None:
            return
        trace.note(
            {
                "parley.status": end.answer.status,
                "gen_ai.response.model": turn.spend.model,
                "gen_ai.usage.input_tokens": turn.spend.usage.input_tokens,
                "gen_ai.usage.output_tokens": turn.spend.usage.output_tokens,
            }
        )
        if end.answer.error is not None:
            trace.fail(end.answer.error)
        _log_end(services, turn, end.answer, closed_at=end.closed_at)


async def hand_over(database: Database, key: TurnKey, unpaid: Sequence[PaidCall] = ()) -> None:
    """Release a turn so that another worker can continue it, without counting the attempt as a failure.

    Pays for the interrupted model call and releases the rest of the reservation.
    """
    async with database.transaction() as session:
        is_ours = (await session.execute(statements.hand_over_turn, {"turn_id": key.id, "attempt": key.attempt})).all()
        if is_ours:
            await settle(session, key, unpaid)


def _log_end(services: TurnServices, turn: RunningTurn, answer: TurnResult, *, closed_at: float) -> None:
    # The one line of a turn: ids and numbers, no text.
    ended, timings, place = services.clock.monotonic(), turn.start.timings, turn.message.place
    names = (step.tool.name for step in turn.log.steps if step.role == "tool_call")
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
        # A name that the model made up may hold anything.
        tools=dict(Counter(name if turn.offer.find(name) is not None else "unknown" for name in names)),
        route=turn.spend.model,
        tokens=turn.spend.usage.total,
        cost=turn.spend.usage.cost,
        seconds=round(ended - turn.start.began, 3),
        context_seconds=round(timings.context, 3),
        model_seconds=round(timings.model, 3),
        tool_seconds=round(timings.tools, 3),
        delivery_seconds=round(ended - closed_at, 3),
    )
