"""How a turn begins: from waiting messages, or from the journal of an attempt that was cut off."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from agent.app import App
from agent.attachments import PendingFile, list_pending, record_files, with_file_lines
from agent.budget import Verdict, release, reserve
from agent.context import PastStep, estimate, load_history
from agent.conversations import ResolvedConversation, resolve_conversation
from agent.events import Announcer
from agent.inbox import Job, Waiting, list_open, next_run
from agent.journal import Step, TurnKey, list_steps, record
from agent.personas import ResolvedPersona, resolve_persona
from agent.tokens import count_tokens
from agent.toolbox import Offer, Scope
from agent.users import ResolvedUser, resolve_user
from shared.errors import Superseded
from shared.messages import IncomingMessage
from shared.models import TurnEvent

# A reservation outlives its turn's deadline by this, so that only dead turns lose theirs.
RESERVATION_SLACK_SECONDS = 30

BEGIN = text("""
WITH begun AS (
    INSERT INTO turns (conversation_id, user_id, persona_id)
    VALUES (:conversation_id, :user_id, :persona_id) RETURNING id
), taken AS (
    UPDATE inbox SET status = 'claimed', turn_id = begun.id FROM begun
    WHERE inbox.id IN (SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:inbox_ids AS jsonb)))
)
SELECT id FROM begun
""")

TAKE_OVER = text("""
UPDATE turns SET attempt = attempt + 1, handovers = least(handovers + :forgiven, attempt)
WHERE id = :turn_id AND status = 'running'
RETURNING attempt, handovers, user_id, stop_requested
""")
# The identity may have been given to another user since: who pays is who reserves.
CHANGE_PAYER = text("UPDATE turns SET user_id = :user_id WHERE id = :turn_id")


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """All that is known of a turn when its work begins; `steps` is what the journal holds already."""

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
    verdict: Verdict
    estimate: int
    announcer: Announcer
    failures: int
    is_stopped: bool
    began: float
    deadline: float

    @property
    def said(self) -> str:
        """Return the text of the message as the journal keeps it, with the lines of its files."""
        return self.steps[0].content


@dataclass(frozen=True, slots=True)
class _Start:
    key: TurnKey
    steps: tuple[Step, ...]
    files: tuple[PendingFile, ...]
    announcer: Announcer
    failures: int = 0
    is_stopped: bool = False


async def open_turn(app: App, job: Job) -> RunningTurn | None:
    """Begin the next turn of the job's place, or go on with one that was cut off.

    One transaction; returns None when nothing is left to do there, or another worker has been given the place.
    """
    began = app.clock.monotonic()
    async with app.database.transaction() as session:
        run = next_run(await list_open(session, job))
        if not run:
            return None
        message = merge(run)
        user = await resolve_user(session, message.sender, app.settings.default_guest_token_budget)
        persona = await resolve_persona(session, message.place, user.permission, app.settings)
        conversation = await resolve_conversation(session, user.id, persona.id, message.place)
        start = await _start(app, session, job, run, message, user, conversation, persona)
        history = await load_history(session, conversation, user.id, start.key.id)
        scope = Scope(user.as_caller(), persona, message.place)
        offer = app.toolbox.offered_to(scope)
        recalled = app.settings.memory_recall_limit if user.has_memories else 0
        tokens = estimate(persona, conversation, history, start.steps, offer, recalled)
        seconds = app.settings.turn_deadline_seconds + RESERVATION_SLACK_SECONDS
        verdict = await reserve(session, user.id, start.key.id, start.key.attempt, tokens, seconds)
    return RunningTurn(
        key=start.key,
        inbox_ids=tuple(each.inbox_id for each in run),
        message=message,
        user=user,
        persona=persona,
        conversation=conversation,
        scope=scope,
        offer=offer,
        history=tuple(history),
        steps=start.steps,
        files=start.files,
        verdict=verdict,
        estimate=tokens,
        announcer=start.announcer,
        failures=start.failures,
        is_stopped=start.is_stopped,
        began=began,
        deadline=began + app.settings.turn_deadline_seconds,
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
    )


async def _start(
    app: App,
    session: AsyncSession,
    job: Job,
    run: Sequence[Waiting],
    message: IncomingMessage,
    user: ResolvedUser,
    conversation: ResolvedConversation,
    persona: ResolvedPersona,
) -> _Start:
    inbox_ids = [each.inbox_id for each in run]
    if run[0].turn_id is not None:
        return await _take_over(app, session, job, run, message, user)
    given = {
        "conversation_id": conversation.id,
        "user_id": user.id,
        "persona_id": persona.id,
        "inbox_ids": json.dumps(inbox_ids),
    }
    key = TurnKey((await session.execute(BEGIN, given)).scalar_one(), attempt=1)
    files = await record_files(session, user.id, conversation.id, key.id, message.attachments)
    announcer = Announcer(app.database, key, inbox_ids, -1, watched=message.wants_stream)
    said = _user_step(user, message, with_file_lines(message.content, files))
    events = [
        announcer.event("user_message", content=said.content, speaker=user.name),
        announcer.event("turn_started", conversation_id=conversation.id, user_id=user.id),
    ]
    await record(session, key, [said], events, announcer.note())
    return _Start(key, (said,), tuple(files), announcer)


async def _take_over(
    app: App,
    session: AsyncSession,
    job: Job,
    run: Sequence[Waiting],
    message: IncomingMessage,
    user: ResolvedUser,
) -> _Start:
    turn_id, inbox_ids = run[0].turn_id or 0, [each.inbox_id for each in run]
    row = (await session.execute(TAKE_OVER, {"turn_id": turn_id, "forgiven": int(job.was_lost)})).one_or_none()
    if row is None:
        raise Superseded
    key = TurnKey(turn_id, row.attempt)
    await release(session, turn_id)
    if row.user_id != user.id:
        await session.execute(CHANGE_PAYER, {"turn_id": turn_id, "user_id": user.id})
    steps = await list_steps(session, turn_id)
    files = await list_pending(session, turn_id, message.attachments)
    last = (await session.execute(select(func.max(TurnEvent.seq)).where(TurnEvent.turn_id == turn_id))).scalar()
    announcer = Announcer(app.database, key, inbox_ids, -1 if last is None else last, watched=message.wants_stream)
    failures = row.attempt - 1 - row.handovers
    return _Start(key, tuple(steps), tuple(files), announcer, failures, is_stopped=row.stop_requested)


def _user_step(user: ResolvedUser, message: IncomingMessage, content: str) -> Step:
    return Step(
        seq=0,
        role="user",
        content=content,
        token_count=count_tokens(content),
        speaker=user.name,
        platform_message_id=message.platform_message_id,
    )
