"""The loop: model, wave of tools, model, until an answer.

Each answer is recorded with its calls as intents, paid, and the next call reserved, before a tool runs. What is
recorded is never done again.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from agent.app import App
from agent.billing.budget import AdmissionStatus, Reservation, reserve
from agent.billing.ledger import PaidCall, Payment, add_usage
from agent.confirmations.decisions import Question, tell_outcome
from agent.context.builder import Context
from agent.journal.records import Entry, Recorded, pay, record
from agent.journal.steps import Step
from agent.llm.completions import CallObserver, RejectedCall
from agent.people.loop_modes import LoopMode
from agent.planner.execution import find_response
from agent.planner.mode import PlannerMode
from agent.prompts import prompts
from agent.turn import circuit_breaker
from agent.turn.close import TurnResult
from agent.turn.log import Progress
from agent.turn.modes import Mode, ModelTurn, NativeMode, waves_left
from agent.turn.open import RESERVATION_SLACK_SECONDS, RunningTurn
from agent.turn.tool_batch import TurnEnd, find_end, list_file_ids, run_tools
from agent.turn.tool_calls import tell_intents
from shared.db.retries import retry_on_lost_db
from shared.errors import BudgetBusy, ModelsUnavailable, PromptTooLong, Refusal, Stopped
from shared.tasks import shield_until_done

BUDGET_WAIT_SECONDS = 0.1
MODES: Mapping[LoopMode, Mode] = {"native": NativeMode(), "planner": PlannerMode()}


async def respond(app: App, turn: RunningTurn, context: Context, progress: Progress) -> TurnResult:
    """Ask the model and play its tool calls until it answers.

    Raises `Refusal` (budget, stop) and `Unavailable` (no model, deadline); `progress` holds what was done.
    """
    # Calls that are open before the first answer come from the journal of an attempt that was cut off.
    is_repeated = True
    progress.shows_untrusted |= context.shows_untrusted
    progress.shows_private |= context.shows_private
    while True:
        await run_tools(app, turn, progress, progress.open_calls(), is_repeated=is_repeated)
        if is_repeated:
            # Should no model come to say it, the person still hears what became of their yes.
            progress.text = tell_outcome(progress.steps)
        is_repeated = False
        circuit_breaker.check(progress.steps)
        if (ending := find_end(turn, progress)) is not None:
            return _ended(progress, ending)
        if response := find_response(progress):
            return _ended(progress, TurnEnd(response))
        await _admit(app, turn, progress)
        said = await _ask(app, turn, context, progress)
        if said.is_answer:
            return _answer(turn, progress, said)
        await _record_wave(app, turn, progress, said)


async def _admit(app: App, turn: RunningTurn, progress: Progress) -> None:
    # Refused only because others of the same person are running: wait for them, within the deadline.
    while not progress.admission.is_admitted:
        if progress.admission.status is AdmissionStatus.EXHAUSTED:
            raise progress.admission.refusal()
        if app.clock.monotonic() > turn.deadline - 1:
            raise BudgetBusy
        if progress.admission.status is AdmissionStatus.BUSY:
            await asyncio.sleep(BUDGET_WAIT_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311  # jitter, not a secret
        seconds = turn.deadline - app.clock.monotonic() + RESERVATION_SLACK_SECONDS
        async with app.database.statement() as session:
            wanted = Reservation(turn.user.id, turn.key.id, turn.key.attempt, tokens=progress.estimate, seconds=seconds)
            progress.admission = await reserve(session, wanted)


async def _ask(app: App, turn: RunningTurn, context: Context, progress: Progress) -> ModelTurn:
    mode = MODES[turn.loop_mode]
    stream = _Stream(turn, mode) if turn.announcer.wants_text else None
    spent: list[RejectedCall] = []
    try:
        completion = await app.router.complete(
            mode.request(turn, context, progress),
            deadline=turn.deadline,
            observer=CallObserver(
                on_text=stream.add if stream else None,
                on_reset=stream.reset if stream else None,
                spent=spent,
                pay=partial(_pay_and_admit, app, turn, progress, spent),
            ),
        )
    except (asyncio.CancelledError, ModelsUnavailable, PromptTooLong, Refusal):
        _note_spent(turn, progress, spent)
        progress.text = (stream.told if stream else "") or progress.text
        raise
    _note_spent(turn, progress, (*spent, RejectedCall(completion.model, completion.usage)))
    progress.text = ""
    said = mode.read(turn, progress, completion)
    progress.text = said.text
    if stream is not None:
        stream.finish(said)
    return said


async def _pay_and_admit(app: App, turn: RunningTurn, progress: Progress, spent: list[RejectedCall]) -> None:
    # An attempt that was paid for is a call: the one after it has to be admitted like any other.
    async def settle_them() -> None:
        seconds = turn.deadline - app.clock.monotonic() + RESERVATION_SLACK_SECONDS
        async with app.database.statement() as session:
            payment = Payment(_to_paid(turn, spent), reserve=progress.estimate, seconds=seconds)
            progress.admission = await pay(session, turn.key, payment)
        _add_spent(progress, _to_paid(turn, spent))
        spent.clear()

    await shield_until_done(settle_them())
    await _admit(app, turn, progress)


class _Stream:
    # What of a model answer was told on as it came.
    def __init__(self, turn: RunningTurn, mode: Mode) -> None:
        self._told: list[str] = []
        self._announcer = turn.announcer
        self._mode = mode
        self._listener = mode.listen()

    def add(self, delta: str) -> None:
        self._tell(delta if self._listener is None else self._listener.feed(delta))

    @property
    def told(self) -> str:
        return "".join(self._told)

    def reset(self) -> None:
        self._told.clear()
        self._listener = self._mode.listen()
        self._announcer.reset_text()

    def finish(self, said: ModelTurn) -> None:
        # A listener holds back what it can't be sure of; natively all has been told.
        if self._listener is None:
            return
        if not said.text.startswith(self.told):
            self.reset()
        if said.is_answer:
            self._tell(said.text[len(self.told) :])

    def _tell(self, text: str) -> None:
        if text:
            self._told.append(text)
            self._announcer.add_text(text)


def _note_spent(turn: RunningTurn, progress: Progress, calls: Sequence[RejectedCall]) -> None:
    # An answer that was refused on the way to a fallback, or cut off, was paid for like any other.
    progress.unpaid = _to_paid(turn, calls)
    _add_spent(progress, progress.unpaid)


def _to_paid(turn: RunningTurn, calls: Sequence[RejectedCall]) -> list[PaidCall]:
    return [PaidCall(each.model, each.usage, turn.purpose) for each in calls]


def _add_spent(progress: Progress, calls: Sequence[PaidCall]) -> None:
    for call in calls:
        progress.model = call.model
        progress.usage = add_usage(progress.usage, call.usage)


async def _record_wave(app: App, turn: RunningTurn, progress: Progress, said: ModelTurn) -> None:
    await turn.announcer.flush()
    answer = Step(progress.next_seq(), "assistant", said.text, said.token_count, said.model, plan=said.plan)
    steps = [answer, *said.calls]
    events = turn.announcer.thinking(said.thinking) + tell_intents(turn, said.calls)
    progress.estimate += sum(step.token_count for step in steps)
    # Results are not known yet; a character is a token at the most.
    room = said.results * app.settings.tool_result_max_chars
    seconds = turn.deadline - app.clock.monotonic()
    payment = Payment(progress.unpaid, reserve=progress.estimate + room, seconds=seconds + RESERVATION_SLACK_SECONDS)

    async def write() -> Recorded:
        async with app.database.statement() as session:
            return await record(session, turn.key, Entry(steps, events, turn.announcer.note()), payment=payment)

    async def record_it() -> Recorded:
        recorded = await retry_on_lost_db(write, seconds)
        progress.steps += steps
        progress.unpaid = []
        progress.admission = recorded.admission or progress.admission
        return recorded

    if (await shield_until_done(record_it())).stop_requested:
        raise Stopped


def _ended(progress: Progress, ending: TurnEnd) -> TurnResult:
    return TurnResult(
        text=ending.text,
        choices=ending.choices,
        question=ending.question,
        steps=tuple(progress.steps),
        waves=progress.waves,
        usage=progress.usage,
        iterations=progress.model_calls,
        model=progress.model,
        file_ids=list_file_ids(progress.steps),
    )


def ask_again(progress: Progress, question: Question) -> TurnResult:
    """Put a question once more, when a yes may have been meant for something else; no model is asked."""
    asking = TurnEnd.asking(question)
    return _ended(progress, replace(asking, text=f"{prompts().confirmation.again}\n\n{asking.text}"))


def _answer(turn: RunningTurn, progress: Progress, said: ModelTurn) -> TurnResult:
    is_last, is_cut = waves_left(turn, progress) <= 0, said.stop == "max_tokens"
    text = said.text.strip()
    if is_cut:
        text = f"{text}\n\n{prompts().turn.cut_note}".strip()
    if is_last:
        text = f"{prompts().turn.limit_reached.format(steps=turn.persona.max_iterations)}\n\n{text}".strip()
    return TurnResult(
        text=text or prompts().turn.empty,
        steps=tuple(progress.steps),
        waves=progress.waves,
        calls=tuple(progress.unpaid),
        usage=progress.usage,
        iterations=progress.model_calls + 1,
        model=said.model,
        thinking=said.thinking,
        finished=not is_last and not is_cut,
        file_ids=list_file_ids(progress.steps),
    )
