"""Resumes a turn that was interrupted: its worker died or stopped, or lost the database."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from agent.journal.lookups import list_steps
from agent.journal.records import settle
from agent.journal.steps import TurnKey, TurnLog
from agent.people.billing.budget import NOT_REQUESTED, Admission, abandon, reserve
from agent.people.participants import LoopMode
from agent.turn.confirmations.decisions import apply_answer
from agent.turn.context.attachments import list_pending
from agent.turn.open import Opening, estimate_first_call
from agent.turn.running import RESERVATION_SLACK_SECONDS, Request, RunningTurn, Spend, Start
from agent.turn.services import TurnServices
from shared.errors import Superseded

TAKE_OVER = text("""
UPDATE turns SET attempt = attempt + 1, handovers = least(handovers + :forgiven, attempt)
WHERE id = :turn_id AND status = 'running'
RETURNING attempt, handovers, user_id, stop_requested, loop_mode
""")
# The identity may have been linked to another user since the last attempt: the turn is then charged to that user.
LAST_SEQ = text("SELECT coalesce(max(seq), -1) FROM turn_events WHERE turn_id = :turn_id")
CHANGE_PAYER = text("UPDATE turns SET user_id = :user_id WHERE id = :turn_id")


async def resume(services: TurnServices, opening: Opening) -> RunningTurn:
    """Begin the next attempt at an interrupted turn; raises `Superseded` when it is no longer running."""
    participants, message, turn_id, job = opening.participants, opening.message, opening.turn_id, opening.job
    user, conversation = participants.user, participants.conversation
    async with services.database.transaction() as session:
        # Of a suspect only those deaths count that its worker died while it ran alone; `deaths` has their number.
        is_forgiven = job.was_lost or (job.deaths is not None and job.last_error is None)
        given = {"turn_id": turn_id, "forgiven": int(is_forgiven)}
        row = (await session.execute(TAKE_OVER, given)).one_or_none()
        if row is None:
            raise Superseded
        key = TurnKey(turn_id, row.attempt)
        steps = await list_steps(session, turn_id)
        await _end_last_attempt(services, session, opening, key=key)
        job.unpaid[key] = ()
        if row.user_id != user.id:
            await session.execute(CHANGE_PAYER, {"turn_id": turn_id, "user_id": user.id})
        # An answer that led to a call is in the journal already; any other is evaluated again, with the same result.
        answer = opening.answer if len(steps) == 1 else None
        decision = await apply_answer(session, answer, user, conversation_id=conversation.id, turn_id=turn_id)
        files = await list_pending(session, turn_id, message.attachments)
        last = (await session.execute(LAST_SEQ, {"turn_id": turn_id})).scalar_one()
        loop_mode: LoopMode = row.loop_mode if row.loop_mode in services.models.modes else "native"
        tokens = estimate_first_call(services, opening, steps=steps, loop_mode=loop_mode)
        log = TurnLog(key.id, steps)
        spend = Spend(NOT_REQUESTED, tokens, services.models.router.highest_price(participants.persona.model))
        spend.admit(await _reserve_again(services, session, user.id, log=log, key=key, spend=spend))
    start = Start(
        opening.began,
        opening.began + services.settings.turn_deadline_seconds,
        failures=row.attempt - 1 - row.handovers + (job.deaths or 0),
        is_stopped=row.stop_requested,
        decision=decision,
        slot=opening.job.slot,
    )
    return RunningTurn(
        key=key,
        request=Request(message, opening.inbox_ids, history=opening.history, files=tuple(files)),
        participants=participants,
        scope=opening.scope,
        offer=opening.offer,
        start=start,
        loop_mode=loop_mode,
        announcer=services.events.announcer(key, opening.inbox_ids, last_seq=last, watched=message.wants_stream),
        log=log,
        spend=spend,
    )


async def _end_last_attempt(services: TurnServices, session: AsyncSession, opening: Opening, key: TurnKey) -> None:
    # This process knows the calls of its own attempt; of one whose worker died only the reservation is known.
    unpaid = opening.job.unpaid.get(TurnKey(key.id, key.attempt - 1))
    if unpaid is not None:
        await settle(session, key, unpaid)
        return
    routes = services.models.router.routes(opening.participants.persona.models)
    await abandon(session, key.id, model=routes[0])


async def _reserve_again(
    services: TurnServices, session: AsyncSession, user_id: int, *, log: TurnLog, key: TurnKey, spend: Spend
) -> Admission:
    if log.open_calls:
        # Calls of tools come first, and reserve for themselves.
        return NOT_REQUESTED
    seconds = services.settings.turn_deadline_seconds + RESERVATION_SLACK_SECONDS
    return await reserve(session, spend.to_reservation(user_id, key, seconds))
