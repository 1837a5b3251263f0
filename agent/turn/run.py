"""One turn, from the stored message to the delivered reply: the whole path on one page."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count

from sqlalchemy import text

from agent.app import App
from agent.billing.budget import AdmissionStatus
from agent.billing.ledger import PaidCall
from agent.context.attachments import AttachmentStore, drop_pending
from agent.context.builder import PromptParts, build_context
from agent.context.history import PastStep
from agent.context.images import load_images
from agent.delegation.agents import count_model_calls
from agent.events.live import LiveTurn, shown_live
from agent.events.notifications import STOPS
from agent.journal.records import settle
from agent.journal.steps import TurnKey, count_calls_before
from agent.journal.turns import Status
from agent.prompts import prompts
from agent.queue.inbox import Job
from agent.queue.outbox import deliver
from agent.turn.cancellation import Stops
from agent.turn.close import TurnResult, close, to_response
from agent.turn.log import Progress, begin_progress
from agent.turn.loop import ask_again, respond
from agent.turn.open import RunningTurn, open_turn
from agent.turn.tool_batch import list_file_ids
from shared.db.database import DatabaseLost
from shared.db.retries import retry_on_lost_db
from shared.errors import ParleyError, Refusal, Stopped, TurnTimedOut, Unavailable
from shared.log import get_logger
from shared.messages import Place

MAX_FAILURES = 3
CLOSING_SECONDS = 30

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
SELECT pg_notify('{STOPS}', CAST(id AS text)) FROM stopped
""")


async def run_turn(app: App, job: Job, stops: Stops) -> None:
    """Take the next turn of the job's place to its end.

    Raises `Superseded` when another worker has taken the turn over, `DatabaseLost` when the turn has to be taken up
    again, and whatever a bug raises.
    """
    turn = await open_turn(app, job)
    if turn is None:
        return
    progress = begin_progress(turn)
    try:
        with app.events.running_here(turn.inbox_ids):
            view = LiveTurn(app.database, turn.key, turn.message)
            async with shown_live(app.senders.get(turn.message.adapter), view, turn.announcer):
                answer = await answer_turn(app, turn, progress, stops, job.last_error)
            reply = await retry_on_lost_db(lambda: close(app, turn, answer), CLOSING_SECONDS)
            # What attempts before this one did is known to the tables alone.
            app.events.finish(turn.inbox_ids, to_response(turn, answer, reply) if turn.key.attempt == 1 else None)
    except asyncio.CancelledError:
        # Without the database the turn is found by whoever sees that this worker is gone.
        with suppress(DatabaseLost):
            await asyncio.shield(hand_over(app, turn.key, progress.unpaid))
        raise
    await deliver(app.database, app.senders, reply)
    with suppress(DatabaseLost):
        await drop_pending(app.database, app.storage, turn_id=turn.key.id, files=turn.files)
    log.info(
        "turn_finished",
        turn=turn.key.id,
        status=answer.status,
        error=answer.error,
        mode=turn.loop_mode,
        steps=answer.iterations,
        route=answer.model,
        tokens=answer.usage.total,
        cost=answer.usage.cost,
        seconds=round(app.clock.monotonic() - turn.began, 3),
    )


async def answer_turn(
    app: App, turn: RunningTurn, progress: Progress, stops: Stops, last_error: str | None
) -> TurnResult:
    """Return what the turn comes to: the model's answer, or the one honest sentence that stands for it."""
    if turn.failures >= MAX_FAILURES:
        cause = f"failed {turn.failures} times; last: {last_error or 'the worker died'}"
        return replace(_ended(progress, prompts().turn.parked, "failed", "parked", cause), file_ids=())
    try:
        async with asyncio.timeout(turn.deadline - app.clock.monotonic()), stops.watch(turn.key.id):
            return await _work(app, turn, progress)
    except TimeoutError:
        return _interrupted(progress, TurnTimedOut())
    except DatabaseLost:
        raise
    except (Refusal, Unavailable) as error:
        return _interrupted(progress, error)


async def hand_over(app: App, key: TurnKey, unpaid: Sequence[PaidCall] = ()) -> None:
    """Leave a turn to another worker: pay for the call that was cut off, give the rest back, and count no failure."""
    async with app.database.transaction() as session:
        is_ours = (await session.execute(HAND_OVER, {"turn_id": key.id, "attempt": key.attempt})).all()
        if is_ours:
            await settle(session, key, unpaid)


async def _work(app: App, turn: RunningTurn, progress: Progress) -> TurnResult:
    if turn.is_stopped:
        raise Stopped
    if turn.taken is not None and turn.taken.refusal is not None:
        raise turn.taken.refusal
    if turn.taken is not None and turn.taken.again is not None:
        return ask_again(progress, turn.taken.again)
    if turn.admission.status is AdmissionStatus.EXHAUSTED and not progress.answers:
        raise turn.admission.refusal()
    await AttachmentStore(app.database, app.storage, app.http, app.senders).store(turn.user.id, turn.files)
    message = PastStep(turn.key.id, turn.user.id, turn.steps[0])
    parts = PromptParts(
        user=turn.user,
        persona=turn.persona,
        conversation=turn.conversation,
        history=turn.history,
        message=message,
        images=await load_images(app.database, app.images, history=turn.history, message=message),
        instructions=turn.offer.instructions,
        platform_context=turn.message.platform_context,
    )
    context = await build_context(app.memory, app.clock, parts, recall_limit=app.settings.memory_recall_limit)
    if app.router.counts_calls and progress.positions is None:
        async with app.database.statement() as session:
            before = await count_calls_before(session, turn.conversation.id, turn.key.id)
        progress.positions = count(before + count_model_calls(progress.steps))
    return await respond(app, turn, context, progress)


def _interrupted(progress: Progress, error: ParleyError) -> TurnResult:
    # What the model had said so far is kept; the sentence says why it ends here.
    if isinstance(error, Stopped):
        return _ended(progress, f"{progress.text}\n\n{error}".strip(), "cancelled", error.code)
    if isinstance(error, Refusal) and not progress.answers:
        return _ended(progress, str(error), "refused", error.code)
    sentence = prompts().turn.ended_in_mid_turn.format(sentence=error) if isinstance(error, Refusal) else str(error)
    cause = str(error.__cause__) if error.__cause__ else None
    status: Status = "answered" if isinstance(error, Refusal) else "failed"
    return _ended(progress, f"{progress.text}\n\n{sentence}".strip(), status, error.code, cause)


def _ended(progress: Progress, said: str, status: Status, error: str, cause: str | None = None) -> TurnResult:
    return TurnResult(
        text=said,
        steps=tuple(progress.steps),
        calls=tuple(progress.unpaid),
        usage=progress.usage,
        iterations=progress.model_calls + (1 if progress.unpaid else 0),
        waves=progress.waves,
        model=progress.model,
        status=status,
        finished=False,
        error=error,
        cause=cause,
        file_ids=list_file_ids(progress.steps),
    )


async def request_stop(app: App, place: Place, user_id: int | None) -> bool:
    """Ask the running turn of a place (of this user; None: anybody's) to stop; returns whether there was one."""
    given = {
        "platform": place.platform,
        "server": place.server,
        "channel": place.channel,
        "thread": place.thread,
        "user_id": user_id,
    }
    async with app.database.transaction() as session:
        return bool((await session.execute(STOP, given)).all())
