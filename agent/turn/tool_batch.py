"""A wave: all tool calls of one model answer at once; each is recorded when done, none ends by another's failure."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agent.app import App
from agent.billing.budget import AdmissionStatus, release
from agent.confirmations.decisions import (
    AGENT_ADAPTERS,
    CHOICES,
    Question,
    consume,
    find_question,
    read_call_id,
    to_denied_result,
)
from agent.delegation.agents import as_agent, is_delegation, leaves_house, tell_result, to_asking
from agent.journal.records import Entry, Recorded, record
from agent.journal.steps import Event, Step
from agent.llm.tokens import count_tokens
from agent.planner.execution import find_obstacle, following_calls
from agent.policies.taint import is_tainted
from agent.tools.toolbox import Outcome, not_run, repeated_failure, too_many_calls, unknown_outcome
from agent.turn.circuit_breaker import Failures, failed_calls, to_key
from agent.turn.log import Progress
from agent.turn.open import RunningTurn
from agent.turn.tool_calls import tell_intents
from shared.db.retries import retry_on_lost_db
from shared.errors import Stopped, ToolError
from shared.tasks import LEAVE_SECONDS, shield_until_done
from shared.tools import ToolContext

# Results that come this close together are recorded in one transaction.
GROUPING_SECONDS = 0.005
MAX_FILES = 10
# The loop records one call more than may run; its result tells the model that the rest was left out.
MAX_CALLS = 32

Finished = tuple[Step, Outcome]


@dataclass(frozen=True, slots=True)
class _Rules:
    # What decides whether a call of this wave runs: how many at once, what failed before, what is one too many.
    gate: asyncio.Semaphore
    failures: Failures
    surplus: frozenset[int]
    repeated: frozenset[str | None]


async def run_tools(
    app: App, turn: RunningTurn, progress: Progress, calls: Sequence[Step], *, is_repeated: bool
) -> None:
    """Run the calls, at most `WAVE_WIDTH` at once, and record their results; `progress` has them in the model's order.

    They are calls of the last answer; those of a plan that wait for one of them follow as soon as they may. With
    `is_repeated` they come from the journal of an attempt that was cut off: those with effects are not run again, the
    model is told that their outcome is unknown.
    """
    rules = _Rules(
        gate=asyncio.Semaphore(app.settings.wave_width),
        failures=failed_calls(progress.steps),
        surplus=frozenset(answer.seq + 1 + MAX_CALLS for answer in progress.answers),
        repeated=frozenset(call.tool_call_id for call in calls) if is_repeated else frozenset(),
    )
    # The result of the n-th call of an answer stands n places behind its last call, whatever finishes first.
    width = progress.width(progress.last_answer)
    running = await _start(app, turn, progress, calls, rules)
    try:
        while running:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            done, running = await asyncio.wait(running, timeout=GROUPING_SECONDS)
            results = [_to_result(each.result(), width) for each in done]
            following = following_calls(turn, progress, [step for step, _ in results])
            await _record(app, turn, progress, results, following)
            running |= await _start(app, turn, progress, following, rules)
    finally:
        # Only a stop, a lost turn or the deadline comes here with calls still running.
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=LEAVE_SECONDS)


async def _start(
    app: App, turn: RunningTurn, progress: Progress, calls: Sequence[Step], rules: _Rules
) -> set[asyncio.Task[Finished]]:
    if any(is_delegation(call) for call in calls):
        await _give_back(app, turn, progress)
    obstacles = [find_obstacle(turn, progress, call) for call in calls]
    # Calls of a plan that waited are given what others came to: for them that is part of what they were written with.
    tainted = await is_tainted(app, turn, progress, calls)
    return {
        asyncio.create_task(_call(app, turn, progress, call, rules, obstacle, tainted), name=call.tool_call_id)
        for call, obstacle in zip(calls, obstacles, strict=True)
    }


async def _give_back(app: App, turn: RunningTurn, progress: Progress) -> None:
    # Agents reserve on the same budget: what is held for the answer after them could leave them nothing to work with,
    # and both would wait for each other.
    async with app.database.statement() as session:
        await release(session, turn.key.id)
    progress.admission = replace(progress.admission, status=AdmissionStatus.NOT_REQUESTED)


async def _call(
    app: App,
    turn: RunningTurn,
    progress: Progress,
    call: Step,
    rules: _Rules,
    obstacle: Outcome | None,
    tainted: bool,
) -> Finished:
    name = str(call.tool_name)
    if call.seq in rules.surplus:
        return call, too_many_calls(MAX_CALLS)
    if obstacle is not None:
        return call, obstacle
    if rules.failures and (known := rules.failures.get(to_key(call))) is not None:
        return call, repeated_failure(known)
    tool = turn.offer.find(name)
    answered = read_call_id(call.tool_call_id)
    # An agent goes on where its own journal ends.
    is_repeated = call.tool_call_id in rules.repeated and not is_delegation(call)
    if answered is None and is_repeated and tool is not None and not tool.read_only:
        return call, unknown_outcome()
    async with rules.gate:
        if answered is not None:
            return call, await _carry_out(app, turn, progress, call, *answered)
        return call, await _run(app, turn, progress, call, is_tainted=tainted)


async def _carry_out(
    app: App, turn: RunningTurn, progress: Progress, call: Step, answer: str, confirmation_id: int
) -> Outcome:
    # The person has answered a question: this is the call that was held back for it.
    if answer == "denied":
        return Outcome(to_denied_result(), is_error=True)
    agreed = await consume(app.database, turn.key, confirmation_id)
    if agreed is None:
        # The yes is spent: an attempt before this one has begun the call.
        return unknown_outcome()
    if agreed.agent is not None:
        try:
            turn = await as_agent(app, turn, agreed.agent)
        except ToolError as error:
            return not_run(str(error))
    return await _run(app, turn, progress, call, agreed_to=agreed.question)


async def _run(
    app: App,
    turn: RunningTurn,
    progress: Progress,
    call: Step,
    *,
    is_tainted: bool = False,
    agreed_to: str | None = None,
) -> Outcome:
    name = str(call.tool_name)
    tool = turn.offer.find(name)
    context = build_tool_context(app, turn, call, module=tool.module if tool else "", agreed_to=agreed_to)
    if is_delegation(call):
        context = to_asking(context, partial(app.delegate, app, turn, progress, str(call.tool_call_id)))
        is_tainted = is_tainted and leaves_house(turn.scope, call)
    return await app.toolbox.call(
        turn.offer,
        turn.scope,
        name,
        call.value,
        context,
        is_tainted=is_tainted,
        can_ask=turn.message.adapter not in AGENT_ADAPTERS,
    )


def build_tool_context(
    app: App, turn: RunningTurn, call: Step, module: str, agreed_to: str | None = None
) -> ToolContext:
    """Return what the tool is given: who, where and which conversation come from the turn, never from the model."""
    place = turn.conversation.place
    return ToolContext(
        user=turn.scope.user,
        place=place,
        conversation_id=turn.conversation.id,
        turn_id=turn.key.id,
        call_id=str(call.tool_call_id),
        module=module,
        clock=app.clock,
        http=app.http,
        storage=app.storage.of_user(app.database, turn.user.id, turn.conversation.id, turn.key.id),
        memory=app.memory.of_user(turn.user.id, place, turn.conversation.id),
        database=app.database,
        house_settings=app.settings,
        agreed_to=agreed_to,
    )


def _to_result(finished: Finished, width: int) -> tuple[Step, bool]:
    call, outcome = finished
    step = Step(
        seq=call.seq + width,
        role="tool_result",
        content=outcome.content,
        token_count=count_tokens(outcome.content),
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
    )
    return step, outcome.is_error


async def _record(
    app: App,
    turn: RunningTurn,
    progress: Progress,
    results: Sequence[tuple[Step, bool]],
    following: Sequence[Step],
) -> None:
    events: list[Event] = [
        event
        for step, is_error in sorted(results, key=lambda each: each[0].seq)
        for event in tell_result(
            turn.announcer,
            progress.find_call(str(step.tool_call_id)),
            step,
            progress.told.get(str(step.tool_call_id)),
            is_error=is_error,
        )
    ]
    events += tell_intents(turn, following)
    steps = [*(step for step, _ in results), *following]

    async def write() -> Recorded:
        async with app.database.statement() as session:
            return await record(session, turn.key, Entry(steps, events, turn.announcer.note()))

    async def record_it() -> Recorded:
        recorded = await retry_on_lost_db(write, turn.deadline - app.clock.monotonic())
        progress.steps += steps
        progress.estimate += sum(step.token_count for step in steps)
        return recorded

    if (await shield_until_done(record_it())).stop_requested:
        raise Stopped


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """What a tool that ends the turn says to the person; `choices` are answers to offer.

    `question`: what the person has to say yes to before a call is run.
    """

    text: str
    choices: tuple[str, ...] = ()
    question: Question | None = None

    @classmethod
    def asking(cls, question: Question) -> "TurnEnd":
        """Return the end of a turn with this question."""
        return cls(question.shown, CHOICES, question)


def find_end(turn: RunningTurn, progress: Progress) -> TurnEnd | None:
    """Return what ends the turn: a question, or a tool of the last answer that does; None when the model goes on."""
    last = max((answer.seq for answer in progress.answers), default=0)
    results = [step for step in progress.sorted_steps() if step.role == "tool_result" and step.seq > last]
    questions = [find_question(progress.find_call(str(step.tool_call_id)), step) for step in results]
    if question := next(filter(None, questions), None):
        return TurnEnd.asking(question)
    for step in results:
        tool = turn.offer.find(str(step.tool_name))
        plain = step.value if tool is not None and tool.ends_turn else None
        if not isinstance(plain, dict) or plain.get("error") or not isinstance(plain.get("message"), str):
            continue
        if plain["message"].strip():
            options = plain.get("options")
            return TurnEnd(plain["message"], tuple(map(str, options)) if isinstance(options, list) else ())
    return None


def list_file_ids(steps: Sequence[Step]) -> tuple[int, ...]:
    """Return the ids of files that tools made: results, or entries of their `files`, with `file_id` and `url`."""
    ids: dict[int, None] = {}
    for step in steps:
        if step.role == "tool_result":
            ids |= dict.fromkeys(_file_ids(step.value))
    return tuple(ids)[:MAX_FILES]


def is_id(value: Any) -> bool:
    """Return whether a value that a tool gave can be a row's id."""
    return type(value) is int and 0 < value < 2**63


def list_files(steps: Sequence[Step]) -> tuple[dict[str, Any], ...]:
    """Return the same files as `list_file_ids`, in the shape that makes them files of whoever reads this result."""
    found: dict[int, dict[str, Any]] = {}
    for step in steps:
        if step.role == "tool_result":
            found |= {each["file_id"]: each for each in _made_files(step.value)}
    kept = ("file_id", "filename", "url")
    return tuple({key: each[key] for key in kept if key in each} for each in list(found.values())[:MAX_FILES])


def _file_ids(result: Any) -> list[int]:
    return [each["file_id"] for each in _made_files(result)]


def _made_files(result: Any) -> list[dict[str, Any]]:
    if not isinstance(result, dict):
        return []
    listed = result.get("files")
    candidates = [result, *(listed if isinstance(listed, list) else [])]
    return [
        each
        for each in candidates
        if isinstance(each, dict) and is_id(each.get("file_id")) and isinstance(each.get("url"), str)
    ]
