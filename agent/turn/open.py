"""How a turn begins: from waiting messages, or from the journal of an attempt that was cut off."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import text

from agent.app import App
from agent.billing.budget import Admission, Reservation, release, reserve
from agent.confirmations.decisions import DecisionResult, GivenAnswer, note_answer, read_answer, take_answer
from agent.context.attachments import PendingFile, draw_files, list_pending, record_files, with_file_lines
from agent.context.builder import estimate
from agent.context.history import PastStep, load_history
from agent.context.platform_context import with_earlier
from agent.delegation.agents import tell_call
from agent.events.announcer import Announcer
from agent.journal.records import Entry
from agent.journal.steps import Step, TurnKey, list_steps
from agent.journal.turns import NewTurn, begin_turn
from agent.llm.tokens import count_tokens
from agent.people.conversations import ResolvedConversation
from agent.people.hops import inbound_hops
from agent.people.loop_modes import LoopMode, choose_mode
from agent.people.participants import Participants, resolve_participants
from agent.people.personas import ResolvedPersona
from agent.people.users import ResolvedUser
from agent.planner.messages import count_form
from agent.queue.inbox import Job, Waiting, list_open, next_run
from agent.tools.toolbox import Offer, Scope
from shared.db.driver import Connection, Session
from shared.errors import Superseded
from shared.messages import IncomingMessage

# A reservation outlives its turn's deadline by this, so that only dead turns lose theirs.
RESERVATION_SLACK_SECONDS = 30

TAKE_OVER = text("""
UPDATE turns SET attempt = attempt + 1, handovers = least(handovers + :forgiven, attempt)
WHERE id = :turn_id AND status = 'running'
RETURNING attempt, handovers, user_id, stop_requested, loop_mode
""")
# The identity may have been given to another user since: who pays is who reserves.
LAST_SEQ = text("SELECT coalesce(max(seq), -1) FROM turn_events WHERE turn_id = :turn_id")
CHANGE_PAYER = text("UPDATE turns SET user_id = :user_id WHERE id = :turn_id")


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """All that is known of a turn when its work begins; `steps` is what the journal holds already.

    `purpose` is what the ledger says of its model calls, `taken` what came of the message when it answers a question.
    """

    key: TurnKey
    inbox_ids: tuple[int, ...]
    message: IncomingMessage
    user: ResolvedUser
    persona: ResolvedPersona
    conversation: ResolvedConversation
    scope: Scope
    offer: Offer
    history: tuple[PastStep, ...]
    steps: tuple[Step, ...]
    files: tuple[PendingFile, ...]
    admission: Admission
    estimate: int
    announcer: Announcer
    loop_mode: LoopMode
    failures: int
    is_stopped: bool
    began: float
    deadline: float
    purpose: str = "answer"
    taken: DecisionResult | None = None

    @property
    def said(self) -> str:
        """Return the text of the message as the journal keeps it, with the lines of its files."""
        return self.steps[0].content


@dataclass(frozen=True, slots=True)
class _Opening:
    # What is known before a turn is begun or gone on with; `answer`: the message may answer a question.
    app: App
    job: Job
    inbox_ids: tuple[int, ...]
    turn_id: int
    message: IncomingMessage
    participants: Participants
    scope: Scope
    offer: Offer
    history: tuple[PastStep, ...]
    answer: GivenAnswer | None

    @property
    def loop_mode(self) -> LoopMode:
        persona = self.participants.persona
        if not self.app.router.can_plan((persona.model,) if persona.model else ()):
            return "native"
        return choose_mode(persona.loop_mode, self.participants.conversation.id, self.app.settings.planner_percent)

    def estimate(self, steps: Sequence[Step], loop_mode: LoopMode) -> int:
        recalled = self.app.settings.memory_recall_limit if self.participants.user.has_memories else 0
        participants = self.participants
        tokens = estimate(
            participants.persona,
            participants.conversation,
            history=self.history,
            steps=steps,
            offer=self.offer,
            memory_limit=recalled,
        )
        return tokens + count_form() if loop_mode == "planner" else tokens


@dataclass(frozen=True, slots=True)
class _Start:
    key: TurnKey
    steps: tuple[Step, ...]
    files: tuple[PendingFile, ...]
    announcer: Announcer
    admission: Admission
    loop_mode: LoopMode
    failures: int = 0
    is_stopped: bool = False
    taken: DecisionResult | None = None


async def open_turn(app: App, job: Job) -> RunningTurn | None:
    """Begin the next turn of the job's place, or go on with one that was cut off.

    Everything is read first, then the turn begins in one statement. Returns None when nothing is left to do there, or
    another worker has been given the place.
    """
    began = app.clock.monotonic()
    start = None
    while start is None:
        async with app.database.statement() as session:
            run = next_run(await list_open(session, job))
            if not run:
                return None
            opening = await _prepare(app, session, job, run)
            if run[0].turn_id is not None:
                start = await _take_over(opening)
            elif opening.message.attachments or opening.answer:
                start = await _begin_with_more(opening)
            else:
                start = await _begin(session, opening, ())
    return _to_running(opening, start, began)


async def _prepare(app: App, session: Connection, job: Job, run: Sequence[Waiting]) -> _Opening:
    message = merge(run)
    participants = await resolve_participants(session, message, database=app.database, settings=app.settings)
    turn_id = run[0].turn_id or participants.turn_id
    history = await load_history(session, participants.conversation, user_id=participants.user.id, turn_id=turn_id)
    scope = Scope(
        participants.user.as_caller(),
        participants.persona,
        message.place,
        participants.agents,
        inbound_hops(message.place),
    )
    return _Opening(
        app=app,
        job=job,
        inbox_ids=tuple(each.inbox_id for each in run),
        turn_id=turn_id,
        message=message,
        participants=participants,
        scope=scope,
        offer=app.toolbox.offered_to(scope),
        history=tuple(history),
        answer=read_answer(run),
    )


def _to_running(opening: _Opening, start: _Start, began: float) -> RunningTurn:
    return RunningTurn(
        key=start.key,
        inbox_ids=opening.inbox_ids,
        message=opening.message,
        user=opening.participants.user,
        persona=opening.participants.persona,
        conversation=opening.participants.conversation,
        scope=opening.scope,
        offer=opening.offer,
        history=opening.history,
        steps=start.steps,
        files=start.files,
        admission=start.admission,
        estimate=opening.estimate(start.steps, start.loop_mode),
        announcer=start.announcer,
        loop_mode=start.loop_mode,
        failures=start.failures,
        is_stopped=start.is_stopped,
        began=began,
        deadline=began + opening.app.settings.turn_deadline_seconds,
        taken=start.taken,
    )


def merge(run: Sequence[Waiting]) -> IncomingMessage:
    """Return one message for all that one person wrote in a row; it answers the last of them."""
    last = run[-1].message
    if len(run) == 1:
        return last
    return replace(
        last,
        content="\n".join(each.message.content for each in run),
        attachments=tuple(file for each in run for file in each.message.attachments),
        wants_stream=any(each.message.wants_stream for each in run),
        platform_context=replace(
            last.platform_context, earlier=tuple(line for each in run for line in each.message.platform_context.earlier)
        ),
    )


async def _begin_with_more(opening: _Opening) -> _Start | None:
    # The message brings files, or answers a question: what that takes belongs to the begin of its turn.
    user, conversation, attachments = (
        opening.participants.user,
        opening.participants.conversation,
        opening.message.attachments,
    )
    async with opening.app.database.transaction() as session:
        taken = await take_answer(session, opening.answer, user, conversation.id, opening.turn_id)
        files = await draw_files(session, user.id, attachments) if attachments else []
        start = await _begin(session, opening, files, taken)
        if start is not None:
            await note_answer(session, taken, opening.turn_id)
            if attachments:
                await record_files(
                    session, files, user_id=user.id, conversation_id=conversation.id, turn_id=start.key.id
                )
    return start


async def _begin(
    session: Session, opening: _Opening, files: Sequence[PendingFile], taken: DecisionResult | None = None
) -> _Start | None:
    participants, message, loop_mode = opening.participants, opening.message, opening.loop_mode
    key = TurnKey(opening.turn_id, attempt=1)
    announcer = Announcer(opening.app.database, key, opening.inbox_ids, last_seq=-1, watched=message.wants_stream)
    asked = with_earlier(with_file_lines(message.content, files), message.platform_context.earlier)
    said = _user_step(participants.user, message, asked)
    events = [
        announcer.event("user_message", content=said.content, speaker=participants.user.name),
        announcer.event("turn_started", conversation_id=participants.conversation.id, user_id=participants.user.id),
    ]
    steps = [said, *(taken.steps if taken else ())]
    for step in steps:
        events += tell_call(announcer, step) if step.role == "tool_call" else ()
    # The first model call is shown what the call returns; a character is a token at the most.
    room = opening.app.settings.tool_result_max_chars if len(steps) > 1 else 0
    new = NewTurn(
        turn_id=opening.turn_id,
        job_id=opening.job.id,
        inbox_ids=opening.inbox_ids,
        conversation_id=participants.conversation.id,
        user_id=participants.user.id,
        persona_id=participants.persona.id,
        loop_mode=loop_mode,
        tokens=opening.estimate(steps, loop_mode) + room,
        seconds=opening.app.settings.turn_deadline_seconds + RESERVATION_SLACK_SECONDS,
    )
    admission = await begin_turn(session, new, Entry(steps, events, announcer.note()))
    if admission is None:
        return None
    return _Start(key, tuple(steps), tuple(files), announcer, admission, loop_mode, taken=taken)


async def _take_over(opening: _Opening) -> _Start:
    app, turn_id, user, conversation = (
        opening.app,
        opening.turn_id,
        opening.participants.user,
        opening.participants.conversation,
    )
    async with app.database.transaction() as session:
        given = {"turn_id": turn_id, "forgiven": int(opening.job.was_lost)}
        row = (await session.execute(TAKE_OVER, given)).one_or_none()
        if row is None:
            raise Superseded
        key = TurnKey(turn_id, row.attempt)
        await release(session, turn_id)
        if row.user_id != user.id:
            await session.execute(CHANGE_PAYER, {"turn_id": turn_id, "user_id": user.id})
        steps = await list_steps(session, turn_id)
        # An answer that began the turn with a call stands in its journal; any other comes to the same once more.
        is_open = opening.answer is not None and len(steps) == 1
        taken = await take_answer(session, opening.answer, user, conversation.id, turn_id) if is_open else None
        files = await list_pending(session, turn_id, opening.message.attachments)
        last = (await session.execute(LAST_SEQ, {"turn_id": turn_id})).scalar_one()
        seconds = app.settings.turn_deadline_seconds + RESERVATION_SLACK_SECONDS
        tokens = opening.estimate(steps, row.loop_mode)
        admission = await reserve(session, Reservation(user.id, turn_id, key.attempt, tokens=tokens, seconds=seconds))
    announcer = Announcer(app.database, key, opening.inbox_ids, last_seq=last, watched=opening.message.wants_stream)
    return _Start(
        key=key,
        steps=tuple(steps),
        files=tuple(files),
        announcer=announcer,
        admission=admission,
        loop_mode=row.loop_mode,
        failures=row.attempt - 1 - row.handovers,
        is_stopped=row.stop_requested,
        taken=taken,
    )


def _user_step(user: ResolvedUser, message: IncomingMessage, content: str) -> Step:
    return Step(
        seq=0,
        role="user",
        content=content,
        token_count=count_tokens(content),
        speaker=user.name,
        platform_message_id=message.platform_message_id,
    )
