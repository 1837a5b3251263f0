"""Opens the next turn of a place: all data is read first, then one statement writes its start, or takes it over."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from agent.journal.files import PendingFile, with_file_lines
from agent.journal.quotes import with_earlier
from agent.journal.records import settle
from agent.journal.steps import Entry, PastStep, Step, TurnKey, TurnLog, list_steps, to_history
from agent.live.announcer import Announcer
from agent.live.tool_events import ToolEvents
from agent.people.billing.budget import NOT_REQUESTED, abandon, reserve, to_admission
from agent.people.hops import inbound_hops
from agent.people.participants import LoopMode, Participants, resolve_user, to_participants
from agent.prompts import prompts
from agent.queue.inbox import PREPARATION, to_waiting
from agent.queue.job import Job, merge, next_run
from agent.tools.offer import Offer, Scope
from agent.turn.confirmations.decisions import (
    TYPED,
    DecisionResult,
    GivenAnswer,
    apply_answer,
    note_answer,
    read_answer,
)
from agent.turn.context.attachments import draw_files, list_pending, record_files
from agent.turn.context.builder import Window, cut_history, estimate, find_by_words
from agent.turn.context.due_jobs import list_check_steps
from agent.turn.context.replied_to import MOST_CHARS
from agent.turn.context.requests import brings_history, to_instructions, to_own_history, with_choices
from agent.turn.running import RESERVATION_SLACK_SECONDS, Request, RunningTurn, Spend, Start
from agent.turn.services import TurnServices
from shared.db.driver import Connection, Session
from shared.db.statements import load_statements
from shared.errors import Superseded
from shared.memory.recall import WordMatches
from shared.messages import AGENT_ADAPTERS
from shared.tasks import ignore_result
from shared.text import count_tokens

statements = load_statements(__file__)


class Opening(Struct, frozen=True):
    """What an attempt at a turn starts with; `began` are seconds on the monotonic clock.

    `is_begun`: another attempt has begun the turn. `answer` is set when the message may answer a request for approval.
    `changed_at`: when each of its messages was stored, or edited last, in the order of their ids.
    """

    job: Job
    turn_id: int
    is_begun: bool
    request: Request
    participants: Participants
    scope: Scope
    offer: Offer
    answer: GivenAnswer | None
    began: float
    changed_at: Sequence[datetime]

    def with_files(self, files: Sequence[PendingFile]) -> "Opening":
        """Return this with the files of the message, which have got their ids."""
        return replace(self, request=replace(self.request, files=tuple(files)))

    def to_turn(
        self, key: TurnKey, log: TurnLog, spend: Spend, *, start: Start, loop_mode: LoopMode, announcer: Announcer
    ) -> RunningTurn:
        """Return the turn that begins with this, once it has been stored."""
        return RunningTurn(
            key=key,
            request=self.request,
            participants=self.participants,
            scope=self.scope,
            offer=self.offer,
            start=start,
            loop_mode=loop_mode,
            announcer=announcer,
            log=log,
            spend=spend,
        )


async def prepare(services: TurnServices, session: Connection, *, job: Job, began: float) -> Opening | None:
    """Read everything that the next turn of the job's place begins with; the sender gets an account if they have none.

    Returns None when the place has no waiting messages, or another worker has claimed it.
    """
    row = await _read_place(services, session, job)
    if row is None:
        return None
    run = next_run([to_waiting(entry) for entry in row.messages])
    message = merge(run)
    participants = await to_participants(session, row.participants, message=message, settings=services.settings)
    if message.request is not None:
        participants = await with_choices(session, participants, message.request, settings=services.settings)
    scope = Scope(
        user=participants.user.as_caller(),
        persona=participants.persona,
        place=message.place,
        modules=participants.modules,
        agents=participants.agents,
        hops=inbound_hops(message.place) if message.place.thread is not None else (),
        can_ask=message.adapter not in AGENT_ADAPTERS and not message.is_anonymous,
        is_anonymous=message.is_anonymous,
    )
    offer = services.toolbox.offered_to(scope)
    if message.request is not None and brings_history(message.request):
        history = to_own_history(message.request)
    else:
        # The model that is asked first counts; for one with a smaller window the router shortens the request.
        model_window = services.models.router.window(participants.persona.models)
        texts = count_tokens(participants.persona.system_prompt) + count_tokens(offer.instructions)
        reserved = participants.persona.max_output_tokens + offer.tokens + texts
        window = Window.of(model_window, reserved, services.settings.history_tokens)
        past = to_history(row.history, participants.user.id)
        history = await cut_history(
            session, participants.conversation, past, window=window, turn_id=participants.turn_id
        )
    may_answer = any(entry.message.decision or TYPED.fullmatch(entry.message.content) for entry in run)
    return Opening(
        job=job,
        turn_id=participants.turn_id,
        is_begun=run[0].turn_id is not None,
        request=Request(message, tuple(entry.inbox_id for entry in run), history=tuple(history)),
        participants=participants,
        scope=scope,
        offer=offer,
        answer=read_answer(run) if may_answer else None,
        began=began,
        changed_at=[entry.changed_at for entry in sorted(run, key=attrgetter("inbox_id"))],
    )


async def _read_place(services: TurnServices, session: Connection, job: Job) -> Any:
    parameters = {"job_id": job.id, **PREPARATION}
    # What was read with the message, the first time.
    row = None if job.prefetch is None else job.prefetch.take()
    while True:
        row = row or (await session.execute(statements.prepare_turn, parameters)).one_or_none()
        if row is None or row.participants is not None:
            return row
        await resolve_user(session, to_waiting(row.messages[0]).message.sender)
        row = None


def choose_mode(chosen: LoopMode | None, conversation_id: int, planner_percent: int) -> LoopMode:
    """Return `chosen` if it is set; otherwise `planner` for `planner_percent` percent of all conversations.

    The mode of a conversation is stable: one that is planned at 10 percent is also planned at 20.
    """
    if chosen is not None:
        return chosen
    digest = sha256(f"planner {conversation_id}".encode()).digest()
    return "planner" if int.from_bytes(digest[:8]) % 100 < planner_percent else "native"


def choose_loop_mode(services: TurnServices, opening: Opening) -> LoopMode:
    """Return the mode of a new turn, chosen by the persona or the settings.

    Falls back to "native" when no route of the persona can plan, or the chosen mode is not installed.
    """
    persona = opening.participants.persona
    if not services.models.router.can_plan(persona.models):
        return "native"
    percent = services.settings.planner_percent
    chosen = choose_mode(persona.loop_mode, opening.participants.conversation.id, percent)
    return chosen if chosen in services.models.modes else "native"


def estimate_first_call(services: TurnServices, opening: Opening, steps: Sequence[Step], loop_mode: LoopMode) -> int:
    """Return an upper estimate, in tokens, of the next model call of a turn with these steps."""
    participants = opening.participants
    tokens = estimate(
        participants.persona,
        participants.conversation,
        history=opening.request.history,
        steps=steps,
        offer=opening.offer,
        memory_limit=services.settings.memory_recall_limit if participants.have_memories else 0,
    )
    message = opening.request.message
    # At most one token per character.
    replied_to = MOST_CHARS if message.replied_to is not None else 0
    if message.request is not None:
        tokens += count_tokens(to_instructions(message.request))
    return tokens + replied_to + services.models.modes[loop_mode].prompt_tokens


async def open_turn(services: TurnServices, job: Job) -> RunningTurn | None:
    """Open the next turn in the job's place, or resume the one that was interrupted there.

    Returns None when the place has no waiting messages, or another worker has claimed it.
    """
    began = services.clock.monotonic()
    while True:
        async with services.database.statement() as session:
            opening = await prepare(services, session, job=job, began=began)
            if opening is None:
                return None
            if opening.is_begun:
                break
            has_more = opening.request.message.attachments or opening.answer
            turn = None if has_more else await _begin(services, session, opening)
        # On a connection of its own: whoever waits for one has none.
        if has_more:
            turn = await _begin_with_more(services, opening)
        if turn is not None:
            if job.prefetch is not None:
                job.prefetch.settle(is_flushed=True)
            turn.announcer.announce()
            return turn
    return await resume(services, opening)


async def _begin_with_more(services: TurnServices, opening: Opening) -> RunningTurn | None:
    # Files and the answer to a question are recorded in the same transaction as the new turn.
    user, conversation = opening.participants.user, opening.participants.conversation
    attachments = opening.request.message.attachments
    async with services.database.transaction() as session:
        decision = await apply_answer(
            session, opening.answer, user, conversation_id=conversation.id, turn_id=opening.turn_id
        )
        files = await draw_files(session, user.id, attachments) if attachments else []
        turn = await _begin(services, session, opening.with_files(files), decision=decision)
        if turn is not None:
            await note_answer(session, decision, user.id, turn_id=opening.turn_id)
            if attachments:
                await record_files(
                    session, files, user_id=user.id, conversation_id=conversation.id, turn_id=opening.turn_id
                )
    return turn


async def _begin(
    services: TurnServices,
    session: Session,
    opening: Opening,
    decision: DecisionResult | None = None,
) -> RunningTurn | None:
    participants, request = opening.participants, opening.request
    loop_mode = choose_loop_mode(services, opening)
    key = TurnKey(opening.turn_id, attempt=1)
    announcer = services.events.announcer(key, request.inbox_ids, watched=request.message.wants_stream)
    steps = _first_steps(opening, decision)
    events = [
        announcer.event("user_message", content=steps[0].content, speaker=participants.user.name),
        announcer.event("turn_started", conversation_id=participants.conversation.id, user_id=participants.user.id),
    ]
    if decision:
        tool_events = ToolEvents(announcer, services.toolbox, scope=opening.scope, offer=opening.offer)
        events += tool_events.of_calls(step for step in steps if step.role == "tool_call")
    tokens = estimate_first_call(services, opening, steps=steps, loop_mode=loop_mode)
    # If the turn starts with approved calls, the first prompt contains their results: at most one token per character.
    room = services.settings.tool_result_max_chars * sum(step.role == "tool_call" for step in steps)
    price = services.models.router.highest_price(participants.persona.model)
    # From here on the turn may exist, even if the acknowledgement of its commit is lost.
    opening.job.unpaid[key] = ()
    seconds = services.settings.turn_deadline_seconds + RESERVATION_SLACK_SECONDS
    reservation = Spend(NOT_REQUESTED, tokens + room, price).to_reservation(participants.user.id, key, seconds)
    entry = Entry(steps, events)
    parameters = {
        "job_id": opening.job.id,
        "inbox_ids": list(map(str, request.inbox_ids)),
        "conversation_id": participants.conversation.id,
        "persona_id": participants.persona.id,
        "persona_version_id": participants.persona.choice.version_id,
        "loop_mode": loop_mode,
        "changed_at": [moment.isoformat() for moment in opening.changed_at],
    }
    parameters |= asdict(reservation) | entry.to_parameters()
    searching = (
        None if request.message.attachments else _start_search(services, opening, PastStep(key.id, None, steps[0]))
    )
    row = (await session.execute(statements.open_turn, parameters)).one_or_none()
    # A message was cancelled or edited, or another worker has claimed the job since they were read: nothing changed.
    if row is None:
        return None
    ends = opening.began + services.settings.turn_deadline_seconds
    start = Start(
        opening.began, ends, decision=decision, by_words=searching, job_id=opening.job.id, slot=opening.job.slot
    )
    log, spend = TurnLog(key.id, steps), Spend(to_admission(row), tokens, price)
    return opening.to_turn(key, log, spend, start=start, loop_mode=loop_mode, announcer=announcer)


def _start_search(services: TurnServices, opening: Opening, message: PastStep) -> asyncio.Task[WordMatches | None]:
    # By words only: it is not known yet whether the turn may cost anything.
    history, limit = opening.request.history, services.settings.memory_recall_limit
    searching = find_by_words(services.memory, opening.participants, message, history=history, limit=limit)
    task = asyncio.create_task(searching, name="recall")
    # A turn that is refused, or that another worker has, does not ask what became of it.
    task.add_done_callback(ignore_result)
    return task


def _first_steps(opening: Opening, decision: DecisionResult | None) -> list[Step]:
    message, files = opening.request.message, opening.request.files
    earlier = message.platform_context.earlier
    content = with_file_lines(message.content, files) if files else message.content
    if earlier or prompts().turn.earlier_heading in content:
        content = with_earlier(content, earlier)
    question = Step(
        seq=0,
        role="user",
        content=content,
        token_count=count_tokens(content),
        speaker=opening.participants.user.name,
        platform_message_id=message.platform_message_id,
    )
    check_steps = () if message.due_job is None else list_check_steps(message.due_job, opening.turn_id)
    return [question, *(decision.steps if decision else ()), *check_steps]


async def resume(services: TurnServices, opening: Opening) -> RunningTurn:
    """Begin the next attempt at an interrupted turn; raises `Superseded` when it is no longer running."""
    participants, request, turn_id, job = opening.participants, opening.request, opening.turn_id, opening.job
    async with services.database.transaction() as session:
        # Of a suspect only those deaths count that its worker died while it ran alone; `deaths` has their number.
        forgiven = int(job.was_lost or (job.deaths is not None and job.last_error is None))
        parameters = {"turn_id": turn_id, "job_id": job.id, "forgiven": forgiven}
        row = (await session.execute(statements.take_over_turn, parameters)).one_or_none()
        if row is None:
            raise Superseded
        key = TurnKey(turn_id, row.attempt)
        steps = await list_steps(session, turn_id)
        # This process knows the calls of its own attempt; of one whose worker died only the reservation is known.
        if (unpaid := job.unpaid.get(TurnKey(turn_id, row.attempt - 1))) is not None:
            await settle(session, key, unpaid)
        else:
            await abandon(session, turn_id, model=services.models.router.routes(participants.persona.models)[0])
        job.unpaid[key] = ()
        if row.user_id != participants.user.id:
            await session.execute(statements.change_payer, {"turn_id": turn_id, "user_id": participants.user.id})
        # An answer that led to a call is in the journal already; any other is evaluated again, with the same result.
        decision = await apply_answer(
            session,
            opening.answer if len(steps) == 1 else None,
            participants.user,
            conversation_id=participants.conversation.id,
            turn_id=turn_id,
        )
        files = await list_pending(session, turn_id, request.message.attachments)
        last = (await session.execute(statements.read_last_event, {"turn_id": turn_id})).scalar_one()
        loop_mode: LoopMode = row.loop_mode if row.loop_mode in services.models.modes else "native"
        tokens = estimate_first_call(services, opening, steps=steps, loop_mode=loop_mode)
        price = services.models.router.highest_price(participants.persona.model)
        log, spend = TurnLog(key.id, steps), Spend(NOT_REQUESTED, tokens, price)
        # Calls of tools come first, and reserve for themselves.
        if not log.open_calls:
            seconds = services.settings.turn_deadline_seconds + RESERVATION_SLACK_SECONDS
            spend.admit(await reserve(session, spend.to_reservation(participants.user.id, key, seconds)))
    start = Start(
        opening.began,
        opening.began + services.settings.turn_deadline_seconds,
        failures=row.attempt - 1 - row.handovers + (job.deaths or 0),
        last_error=job.last_error,
        is_stopped=row.stop_requested,
        decision=decision,
        job_id=job.id,
        slot=job.slot,
    )
    announcer = services.events.announcer(key, request.inbox_ids, last_seq=last, watched=request.message.wants_stream)
    return opening.with_files(files).to_turn(key, log, spend, start=start, loop_mode=loop_mode, announcer=announcer)
