"""The loop: model, wave of tools, model, until an answer.

Each answer is recorded with its calls as intents, paid, and the next call reserved, before a tool runs. What is
recorded is never done again.
"""

import asyncio
import random
from collections.abc import Sequence

from agent import agents, breaker
from agent.app import App
from agent.budget import Admission, reserve
from agent.closing import Answer
from agent.context import Context, to_messages
from agent.journal import PaidCall, Recorded, Step, record_and_settle
from agent.opening import RESERVATION_SLACK_SECONDS, RunningTurn
from agent.patience import insist, unbroken
from agent.personas import prompts
from agent.progress import Progress, add_usage
from agent.router import Completion, ModelRequest, RejectedCall
from agent.tokens import count_tokens
from agent.toolbox import to_json_object
from agent.wave import MAX_CALLS, Ending, find_ending, list_file_ids, play
from shared.errors import BudgetBusy, ModelsUnavailable, PromptTooLong, Stopped

BUDGET_WAIT_SECONDS = 0.1
STEPS_LEFT_TOLD = 2


async def respond(app: App, turn: RunningTurn, context: Context, progress: Progress) -> Answer:
    """Ask the model and play its tool calls until it answers.

    Raises `Refusal` (budget, stop) and `Unavailable` (no model, deadline); `progress` holds what was done.
    """
    # Calls that are open before the first answer come from the journal of an attempt that was cut off.
    is_repeated = True
    while True:
        await play(app, turn, progress, progress.open_calls(), is_repeated=is_repeated)
        is_repeated = False
        breaker.check(progress.steps)
        ending = find_ending(turn, progress)
        if ending is not None:
            return _said_by_tool(progress, ending)
        is_last = progress.waves >= turn.persona.max_iterations
        await _admit(app, turn, progress)
        completion = await _ask(app, turn, context, progress, is_last=is_last)
        if is_last or not completion.tool_calls:
            return _answer(turn, progress, completion, is_last=is_last)
        await _record_wave(app, turn, progress, completion)


async def _admit(app: App, turn: RunningTurn, progress: Progress) -> None:
    # Refused only because others of the same person are running: wait for them, within the deadline.
    while not progress.verdict.is_admitted:
        if progress.verdict.admission is Admission.EXHAUSTED:
            raise progress.verdict.refusal()
        if app.clock.monotonic() > turn.deadline - 1:
            raise BudgetBusy
        if progress.verdict.admission is Admission.BUSY:
            await asyncio.sleep(BUDGET_WAIT_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311  # jitter, not a secret
        seconds = turn.deadline - app.clock.monotonic() + RESERVATION_SLACK_SECONDS
        async with app.database.statement() as session:
            progress.verdict = await reserve(
                session, turn.user.id, turn.key.id, turn.key.attempt, progress.estimate, seconds
            )


async def _ask(app: App, turn: RunningTurn, context: Context, progress: Progress, *, is_last: bool) -> Completion:
    messages = [*context.messages, *to_messages(progress.sorted_steps())]
    note = _steps_note(turn.persona.max_iterations - progress.waves)
    if note and progress.waves:
        messages.append({"role": "user", "content": note})
    request = ModelRequest(
        messages=tuple(messages),
        tools=() if is_last else turn.offer.schemas,
        max_tokens=turn.persona.max_output_tokens,
        models=(turn.persona.model,) if turn.persona.model else (),
        position=progress.next_position(),
        tokens=progress.estimate,
    )
    stream = _Stream(turn) if turn.message.wants_stream else None
    spent: list[RejectedCall] = []
    try:
        completion = await app.router.complete(
            request,
            deadline=turn.deadline,
            on_text=stream.add if stream else None,
            on_reset=stream.reset if stream else None,
            spent=spent,
        )
    except (asyncio.CancelledError, ModelsUnavailable, PromptTooLong):
        _note_spent(turn, progress, spent)
        progress.text = ("".join(stream.pieces) if stream else "") or progress.text
        raise
    _note_spent(turn, progress, (*spent, RejectedCall(completion.model, completion.usage)))
    progress.text = completion.text
    return completion


def _steps_note(left: int) -> str:
    if left <= 0:
        return prompts()["turn.last_answer"]
    return prompts()["turn.steps_left"].format(left=left) if left <= STEPS_LEFT_TOLD else ""


class _Stream:
    # What has been streamed of one model answer, told on as it comes.
    def __init__(self, turn: RunningTurn) -> None:
        self.pieces: list[str] = []
        self._announcer = turn.announcer

    def add(self, delta: str) -> None:
        self.pieces.append(delta)
        self._announcer.add_text(delta)

    def reset(self) -> None:
        self.pieces.clear()
        self._announcer.reset_text()


def _note_spent(turn: RunningTurn, progress: Progress, calls: Sequence[RejectedCall]) -> None:
    # An answer that was refused on the way to a fallback, or cut off, was paid for like any other.
    progress.unpaid = [PaidCall(each.model, each.usage, turn.purpose) for each in calls]
    for call in progress.unpaid:
        progress.model = call.model
        progress.usage = add_usage(progress.usage, call.usage)


async def _record_wave(app: App, turn: RunningTurn, progress: Progress, completion: Completion) -> None:
    await turn.announcer.flush()
    seq = progress.next_seq()
    said = Step(seq, "assistant", completion.text, count_tokens(completion.text), completion.model)
    calls = [
        Step(
            seq=seq + 1 + index,
            role="tool_call",
            content=to_json_object(call.arguments),
            token_count=count_tokens(call.arguments) + count_tokens(call.name),
            tool_call_id=f"call_{turn.key.id}_{seq + 1 + index}",
            tool_name=turn.offer.full_name(call.name),
        )
        for index, call in enumerate(completion.tool_calls[: MAX_CALLS + 1])
    ]
    events = turn.announcer.thinking(completion.thinking) + [
        event for call in calls for event in agents.tell_call(turn.announcer, call)
    ]
    progress.estimate += sum(step.token_count for step in (said, *calls))
    # Results are not known yet; a character is a token at the most.
    room = len(calls) * app.settings.tool_result_max_chars
    seconds = turn.deadline - app.clock.monotonic()

    async def write() -> Recorded:
        async with app.database.statement() as session:
            return await record_and_settle(
                session,
                turn.key,
                [said, *calls],
                events,
                progress.unpaid,
                reserve=progress.estimate + room,
                seconds=seconds + RESERVATION_SLACK_SECONDS,
                note=turn.announcer.note(),
            )

    async def record_it() -> Recorded:
        recorded = await insist(write, seconds)
        progress.steps += [said, *calls]
        progress.unpaid = []
        progress.verdict = recorded.verdict or progress.verdict
        return recorded

    if (await unbroken(record_it())).stop_requested:
        raise Stopped


def _said_by_tool(progress: Progress, ending: Ending) -> Answer:
    return Answer(
        text=ending.text,
        choices=ending.choices,
        steps=tuple(progress.steps),
        usage=progress.usage,
        iterations=len(progress.answers),
        model=progress.model,
        file_ids=list_file_ids(progress.steps),
    )


def _answer(turn: RunningTurn, progress: Progress, completion: Completion, *, is_last: bool) -> Answer:
    said = completion.text.strip()
    if completion.stop == "max_tokens":
        said = f"{said}\n\n{prompts()['turn.cut_note']}".strip()
    if is_last:
        said = f"{prompts()['turn.limit_reached'].format(steps=turn.persona.max_iterations)}\n\n{said}".strip()
    return Answer(
        text=said or prompts()["turn.empty"],
        steps=tuple(progress.steps),
        calls=tuple(progress.unpaid),
        usage=progress.usage,
        iterations=len(progress.answers) + 1,
        model=completion.model,
        thinking=completion.thinking,
        finished=not is_last and completion.stop != "max_tokens",
        file_ids=list_file_ids(progress.steps),
    )
