"""The agent loop: calls the model and runs its tool calls (a wave) in turns, until the model gives an answer.

Before any tool runs, one statement records the model answer with its tool calls, pays for it, and reserves tokens for
the next model call. A later attempt at the turn does not repeat recorded work. Only this module writes to the journal
while the turn runs.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from agent.journal.records import Recorded, keep_full_results, pay, record
from agent.journal.steps import Entry, Event, Step, ToolUse, call_seq
from agent.live.tool_events import ToolEvents
from agent.llm.completions import CallObserver, Completion, ModelRequest, RejectedCall
from agent.people.billing.budget import Admission, AdmissionStatus, Payment, reserve, wait_while_busy
from agent.prompts import prompts
from agent.tools.calls import to_pending
from agent.tools.offer import Scope, with_rights
from agent.tools.outcomes import NeedsApproval, Result, kind_of
from agent.turn.close import TurnResult, find_end, to_limit_notice, to_result
from agent.turn.confirmations.questions import describe_decision
from agent.turn.context.builder import Context, to_messages
from agent.turn.modes import Listener, Mode, ModelTurn, to_step
from agent.turn.policies.calls import MAX_CALLS, Policy
from agent.turn.policies.taint import TurnTaint
from agent.turn.running import RESERVATION_SLACK_SECONDS, RunningTurn
from agent.turn.services import TurnServices
from agent.turn.tool_batch import ToolBatch
from shared.db.database import retry_on_lost_db
from shared.errors import ModelsUnavailable, PromptTooLong, Refusal, Stopped
from shared.messages import Sampling
from shared.tasks import shield_until_done
from shared.text import count_tokens

# The model is told how many waves are left when there are so few.
STEPS_LEFT_NOTED = 2


async def respond(services: TurnServices, turn: RunningTurn, context: Context, taint: TurnTaint) -> TurnResult:
    """Call the model and run its tool calls until it answers.

    Raises `Refusal` (budget, stop) and `Unavailable` (no model, deadline). `turn.log` and `turn.spend` then hold the
    work done so far.
    """
    log, mode, timings = turn.log, services.models.modes[turn.loop_mode], turn.start.timings
    if log.answers:
        # Continues an interrupted attempt, or handles calls that the user has approved or denied.
        interrupted = [call.tool.call_id for call in log.open_calls]
        with timings.measure("tools", services.clock):
            # Those run one after another, as they were shown, and none begins before the last one's result is recorded:
            # so a later attempt knows which of them have not begun.
            while (calls := log.open_calls) and calls[0].tool.confirmation is not None:
                await _run_wave(services, turn, taint, scope=turn.scope, calls=calls[:1], interrupted=interrupted)
            await _run_wave(services, turn, taint, scope=turn.scope, calls=calls, interrupted=interrupted)
        # If no model can be reached, the user still learns what happened to the call they approved or denied.
        log.keep_partial(describe_decision(log.steps))
    while (end := find_end(turn, mode)) is None:
        await _admit(services, turn)
        with timings.measure("model", services.clock):
            answer = await _ask(services, turn, context, taint=taint)
        if answer.is_answer:
            return to_result(turn, answer)
        scope = await _record_answer(services, turn, answer)
        with timings.measure("tools", services.clock):
            await _run_wave(services, turn, taint, scope=scope, calls=log.open_calls)
    return end


async def _admit(services: TurnServices, turn: RunningTurn) -> None:
    if turn.spend.admission.status is AdmissionStatus.NOT_REQUESTED:
        await _reserve(services, turn)
    if turn.spend.admission.status is AdmissionStatus.BUSY:
        async with turn.start.slot.released():
            await wait_while_busy(partial(_reserve, services, turn), lambda: turn.deadline - services.clock.monotonic())
    if not turn.spend.admission.is_admitted:
        raise turn.spend.admission.refusal()


async def _reserve(services: TurnServices, turn: RunningTurn) -> Admission:
    reservation = turn.spend.to_reservation(turn.user.id, turn.key, _reservation_seconds(services, turn))
    async with services.database.statement() as session:
        turn.spend.admit(await reserve(session, reservation))
    return turn.spend.admission


def _reservation_seconds(services: TurnServices, turn: RunningTurn) -> float:
    return turn.deadline - services.clock.monotonic() + RESERVATION_SLACK_SECONDS


async def _ask(services: TurnServices, turn: RunningTurn, context: Context, taint: TurnTaint) -> ModelTurn:
    mode = services.models.modes[turn.loop_mode]
    if turn.announcer.wants_text:
        # What people see while it is written is filtered by what the prompt holds now.
        await taint.restrict(turn.announcer.outflow, turn.log, turn.offer.instructions)
    stream = _Stream(turn, mode) if turn.announcer.wants_text else None
    spent: list[RejectedCall] = []
    try:
        completion = await services.models.router.complete(
            mode.request(turn, context),
            deadline=turn.deadline,
            observer=CallObserver(
                on_text=stream.add if stream else None,
                on_reset=stream.reset if stream else None,
                spent=spent,
                pay=partial(_pay_and_admit, services, turn, spent),
                attempts=turn.spend.decisions.attempts,
            ),
            # Nobody waits for a scheduled job.
            is_background=turn.message.due_job is not None,
        )
        spent.append(RejectedCall(completion.model, completion.usage))
    except (asyncio.CancelledError, ModelsUnavailable, PromptTooLong, Refusal):
        turn.log.keep_partial((stream.sent if stream else "") or turn.log.partial)
        raise
    finally:
        turn.spend.add(spent)
    turn.log.keep_partial("")
    answer = mode.read(turn, completion)
    turn.log.keep_partial(answer.text)
    if stream is not None:
        stream.finish(answer)
    return answer


async def _pay_and_admit(services: TurnServices, turn: RunningTurn, spent: list[RejectedCall]) -> None:
    # A rejected answer that costs tokens is a model call too: pay for it, and get the budget's admission for the retry.
    async def settle_rejected() -> None:
        calls = turn.spend.to_paid(spent)
        seconds = _reservation_seconds(services, turn)
        tokens = turn.spend.estimate
        payment = Payment(calls, tokens, turn.spend.cost_of(tokens), seconds=seconds)
        async with services.database.statement() as session:
            turn.spend.admit(await pay(session, turn.key, payment))
        turn.spend.add_usage(calls)
        spent.clear()

    await shield_until_done(settle_rejected())
    await _admit(services, turn)


class _Stream:
    # Streams a model answer to clients while it arrives; `sent` is the text that was sent to them.
    def __init__(self, turn: RunningTurn, mode: Mode) -> None:
        self._turn = turn
        self._sent: list[str] = []
        self._announcer = turn.announcer
        self._mode = mode
        self._begin_text()

    def _begin_text(self) -> None:
        self._listener = self._mode.listen()
        if self._turn.waves_left <= 0:
            # What is said before the last answer comes before it in the stream, too.
            self._announcer.add_text(f"{to_limit_notice(self._turn)}\n\n")

    def add(self, delta: str) -> None:
        self._send(delta if self._listener is None else self._listener.feed(delta))

    @property
    def sent(self) -> str:
        return "".join(self._sent)

    def reset(self) -> None:
        self._sent.clear()
        self._announcer.reset_text()
        self._begin_text()

    def finish(self, answer: ModelTurn) -> None:
        # A listener withholds text until it is sure that it is for the user. In native mode all text was already sent.
        if self._listener is None:
            return
        if not answer.text.startswith(self.sent):
            self.reset()
        if answer.is_answer:
            self._send(answer.text[len(self.sent) :])

    def _send(self, text: str) -> None:
        if text:
            self._sent.append(text)
            self._announcer.add_text(text)


async def _record_answer(services: TurnServices, turn: RunningTurn, answer: ModelTurn) -> Scope:
    # Returns the scope in which the calls of the answer may run.
    turn.announcer.flush()
    spend = turn.spend
    steps = [answer.to_step(turn.log.next_seq), *answer.calls]
    events = turn.announcer.thinking(answer.thinking) + _events(services, turn).of_calls(answer.calls)
    spend.grow(sum(step.token_count for step in steps))
    # Upper estimate of the results, which are not known yet: one token per character.
    tokens = spend.estimate + answer.results * services.settings.tool_result_max_chars
    seconds = _reservation_seconds(services, turn)
    payment = Payment(spend.unpaid, tokens, spend.cost_of(tokens), seconds=seconds)
    return await _record(services, turn, steps, events=events, payment=payment)


async def _record(
    services: TurnServices,
    turn: RunningTurn,
    steps: Sequence[Step],
    *,
    events: Sequence[Event],
    payment: Payment | None = None,
    full: Sequence[tuple[int, str]] = (),
) -> Scope:
    async def write() -> Recorded:
        if full:
            async with services.database.statement() as session:
                await keep_full_results(session, turn.key, full)
        async with services.database.statement() as session:
            return await record(session, turn.key, Entry(steps, events), payment=payment)

    async def record_it() -> Recorded:
        result = await retry_on_lost_db(write, turn.deadline - services.clock.monotonic())
        turn.log.append(steps)
        turn.announcer.announce()
        if payment is not None:
            turn.spend.settle(result.admission)
        return result

    receipt = await shield_until_done(record_it())
    if receipt.stop_requested:
        raise Stopped
    return with_rights(turn.scope, receipt.rights, services.settings)


async def _run_wave(
    services: TurnServices,
    turn: RunningTurn,
    taint: TurnTaint,
    scope: Scope,
    calls: Sequence[Step],
    interrupted: Sequence[str] = (),
) -> None:
    # Runs these calls, and starts each dependent call as soon as the results it needs are recorded.
    mode, outflow = services.models.modes[turn.loop_mode], turn.announcer.outflow
    async with ToolBatch(services, turn, taint, interrupted=interrupted) as batch:
        await batch.start([to_pending(step, scope, turn.offer) for step in calls])
        while outcomes := await batch.finished():
            results = []
            for call, outcome in outcomes:
                content = outflow.json_without_secrets(outcome.content)
                confirmation = outcome.request.to_journal() if isinstance(outcome, NeedsApproval) else None
                step = Step(
                    seq=turn.log.result_seq(turn.log.find_call(call.id)),
                    role="tool_result",
                    content=content,
                    token_count=count_tokens(content),
                    tool=ToolUse(call.id, call.name, outcome=kind_of(outcome), confirmation=confirmation),
                )
                results.append((step, call, outcome))
            results.sort(key=lambda result: result[0].seq)
            calls = mode.ready_calls(turn, [step for step, *_ in results])
            tool_events = _events(services, turn)
            events = [event for result in results for event in tool_events.of_result(*result)]
            steps = [*(step for step, *_ in results), *calls]
            turn.spend.grow(sum(step.token_count for step in steps))
            full = [
                (step.seq, outflow.json_without_secrets(outcome.full))
                for step, _, outcome in results
                if isinstance(outcome, Result) and outcome.full
            ]
            scope = await _record(services, turn, steps, events=events + tool_events.of_calls(calls), full=full)
            await batch.start([to_pending(step, scope, turn.offer) for step in calls])


def _events(services: TurnServices, turn: RunningTurn) -> ToolEvents:
    return ToolEvents(turn.announcer, services.toolbox, scope=turn.scope, offer=turn.offer)


class NativeMode:
    """Uses the provider's native tool calls, or a text protocol for models without them."""

    prompt_tokens = 0

    def request(self, turn: RunningTurn, context: Context) -> ModelRequest:
        """Build the next request; it offers no tools when the turn has no waves left."""
        messages = [*context.messages, *to_messages(turn.log.in_order)]
        waves = turn.waves_left
        note = steps_note(turn) if waves > 0 else prompts().turn.last_answer
        if note and turn.log.waves:
            messages.append({"role": "user", "content": note})
        return ModelRequest(
            messages=tuple(messages),
            tools=turn.offer.schemas if waves > 0 else (),
            max_tokens=turn.persona.max_output_tokens,
            models=turn.persona.models,
            position=turn.spend.next_number(),
            tokens=turn.spend.estimate,
            images=context.images,
            sampling=Sampling() if turn.message.request is None else turn.message.request.sampling,
        )

    def listen(self) -> Listener | None:
        """Return None: all text is for the user."""
        return None

    def read(self, turn: RunningTurn, completion: Completion) -> ModelTurn:
        """Read the tool calls of a completion, or its final answer."""
        seq = turn.log.next_seq
        calls = [
            to_step(turn, call_seq(seq, index), name=call.name, arguments=call.arguments)
            for index, call in enumerate(completion.tool_calls[: MAX_CALLS + 1])
        ]
        return ModelTurn(
            text=completion.text,
            thinking=completion.thinking,
            stop=completion.stop,
            model=completion.model,
            is_answer=turn.waves_left <= 0 or not calls,
            calls=calls,
            results=len(calls),
            token_count=count_tokens(completion.text),
        )

    def policies(self, turn: RunningTurn) -> Sequence[Policy]:
        """Return no additional policies."""
        return ()

    def ready_calls(self, turn: RunningTurn, results: Sequence[Step]) -> Sequence[Step]:
        """Return no calls: native calls do not depend on each other."""
        return ()

    def find_response(self, turn: RunningTurn) -> str:
        """Return an empty text: the results are always sent to the model."""
        return ""


def steps_note(turn: RunningTurn) -> str:
    """Return a note for the model that few waves are left; empty when there are more than that."""
    waves = turn.waves_left
    return prompts().turn.steps_left.format(left=waves) if waves <= STEPS_LEFT_NOTED else ""
