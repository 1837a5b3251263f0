"""What every tool call of a turn is checked by before it runs: a policy lets it continue, or returns its outcome.

Policies apply in a fixed order (`agent/turn/tool_batch.py`); the taint guard, the last, has a file of its own. Last
here, the circuit breaker, which ends the turn after its waves: it counts failures from the journal, so that the count
continues when another worker takes over the turn.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from agent.journal.steps import Step, TurnKey, TurnLog, call_seq
from agent.people.personas import get_persona
from agent.prompts import prompts
from agent.tools.approvals import to_block
from agent.tools.calls import PendingCall
from agent.tools.offer import DELEGATE
from agent.tools.outcomes import Failed, NotRun, Outcome, not_run, unknown_outcome
from agent.tools.toolbox import Toolbox
from agent.turn.confirmations.rows import consume, find_consumed
from shared.db.database import Database
from shared.errors import ToolKeepsFailing
from shared.settings import Settings

SAME_FAILURES = 3
SHOWN_CHARS = 300
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
NUMBER = re.compile(r"\d+")

# The tool, its error and the arguments that matter.
Failure = tuple[str, str, str]


class Policy(Protocol):
    """Checks every tool call of a turn before it runs."""

    async def check(self, call: PendingCall) -> PendingCall | Outcome:
        """Return the call if it may continue, otherwise its outcome; the call is then not run."""
        ...


async def check_call(policies: Sequence[Policy], call: PendingCall) -> PendingCall | Outcome:
    """Apply the policies in order; return the outcome from the first one that stops the call, or the checked call."""
    for policy in policies:
        verdict = await policy.check(call)
        if not isinstance(verdict, PendingCall):
            return verdict
        call = verdict
    return call


# One call more than this is recorded; its result tells the model that the rest was dropped.
MAX_CALLS = 32


class Surplus:
    """Stops the first call of an answer that is over the limit."""

    def __init__(self, log: TurnLog) -> None:
        self._log = log

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop the call if it is over the limit of its answer."""
        if all(call.seq != call_seq(answer.seq, MAX_CALLS) for answer in self._log.answers):
            return call
        return Failed(json.dumps({"error": True, "message": prompts().turn.too_many_calls.format(most=MAX_CALLS)}))


Key = tuple[str, str]


class Repetition:
    """Stops calls that failed in an earlier wave of this turn, and returns their earlier errors with a hint."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._failures = find_failures(steps)

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call that failed before with the same arguments."""
        failure = self._failures.get(_to_key(call.name, call.arguments)) if self._failures else None
        if failure is None:
            return call
        content = {**json.loads(failure), "hint": prompts().turn.repeated_call}
        return Failed(json.dumps(content, ensure_ascii=False))


def find_failures(steps: Sequence[Step]) -> dict[Key, str]:
    """Return the error results of calls that failed and have not succeeded since, keyed by tool and arguments."""
    calls = {step.tool.call_id: step for step in steps if step.role == "tool_call"}
    failures: dict[Key, str] = {}
    for step in steps:
        # A call that was not run is no evidence about its tool.
        if step.role != "tool_result" or step.tool.outcome == "not_run":
            continue
        call = calls[step.tool.call_id]
        if step.tool.outcome == "failed":
            failures[_to_key(call.tool.name, call.value)] = step.content
        elif failures:
            failures.pop(_to_key(call.tool.name, call.value), None)
    return failures


def _to_key(name: str, arguments: Mapping[str, object]) -> Key:
    # Sorted keys: the order of the arguments makes no difference.
    return name, json.dumps(arguments, sort_keys=True)


class Interruption:
    """Stops those of the given calls that have effects; they were open in the journal of an interrupted attempt.

    Calls that the user was asked about are not stopped here: their approval can be consumed only once.
    """

    def __init__(self, interrupted: Collection[str]) -> None:
        self._interrupted = frozenset(interrupted)

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call whose effect may already have happened; its outcome tells the model that this is unknown."""
        tool = call.tool
        if call.id not in self._interrupted or call.confirmation is not None or tool is None:
            return call
        return call if tool.read_only or tool.resumable else unknown_outcome()


class Approval:
    """Consumes the approval of calls, and lets them run in the scope of the agent that requested them.

    The first call of a question consumes its approval. Each of the others comes here once the result of the one before
    is recorded, so of those that an earlier attempt has left, the `interrupted`, it can only have begun the first.
    """

    def __init__(
        self, database: Database, settings: Settings, toolbox: Toolbox, *, key: TurnKey, interrupted: Sequence[str] = ()
    ) -> None:
        self._database, self._settings, self._toolbox = database, settings, toolbox
        self._key, self._interrupted = key, interrupted

    async def check(self, call: PendingCall) -> PendingCall | Failed | NotRun:
        """Stop a call that was denied or whose approval is consumed; add the approved question to the others."""
        if call.confirmation is None:
            return call
        if not call.confirmation["approved"]:
            return Failed(json.dumps({"error": True, "message": prompts().confirmation.denied}))
        confirmation_id, number = call.confirmation["id"], call.confirmation.get("number", 0)
        agreed = None
        if number == 0:
            agreed = await consume(self._database, self._key, confirmation_id)
        elif call.id not in self._interrupted[:1]:
            agreed = await find_consumed(self._database, self._key, confirmation_id)
        if agreed is None:
            if await find_consumed(self._database, self._key, confirmation_id) is None:
                return Failed(json.dumps({"error": True, "message": prompts().confirmation.withdrawn}))
            # An earlier attempt may have started the call, and its outcome is unknown.
            return unknown_outcome()
        # The tool knows only its own question, without the arguments that the taint guard has had shown below it.
        question = agreed.questions[number].removesuffix(to_block(call.arguments))
        if agreed.agent is None:
            return replace(call, agreed_to=question)
        # An agent of this installation to which the user may still delegate.
        scope, permission = call.scope, call.scope.user.permission
        can_delegate = self._toolbox.offered_to(scope).find(DELEGATE) is not None
        agent = next((agent for agent in scope.agents if agent.name == agreed.agent and can_delegate), None)
        if agent is None or agent.persona_id is None or agent.requires > permission:
            return not_run(prompts().delegation.switched_off.format(agent=agreed.agent))
        async with self._database.statement() as session:
            persona = await get_persona(session, agent.persona_id, permission, settings=self._settings)
        scope = replace(scope, persona=persona, hops=(*scope.hops, agent.name))
        return replace(call, agreed_to=question, scope=scope, offer=self._toolbox.offered_to(scope))


class Permitted:
    """Stops calls of tools that are missing or not permitted; the toolbox decides by the same rule as for the offer."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox

    async def check(self, call: PendingCall) -> PendingCall | Failed:
        """Stop a call whose tool is missing or not permitted."""
        return self._toolbox.refuse(call) or call


def check_circuit(steps: Sequence[Step]) -> None:
    """Raise `ToolKeepsFailing` when a tool has failed in the same way in `SAME_FAILURES` waves in a row.

    Equal errors within one wave count once. A call of the tool that succeeds resets its counts, and so does a wave in
    which other tools succeed and this one does not fail.
    """
    arguments = {step.tool.call_id: step.value for step in steps if step.role == "tool_call"}
    # The results by the model answer that they follow. Calls that were not run are no evidence about their tool.
    waves: list[list[Step]] = []
    for step in sorted(steps, key=lambda step: step.seq):
        if step.role == "assistant":
            waves.append([])
        elif step.role == "tool_result" and step.tool.outcome != "not_run" and waves:
            waves[-1].append(step)
    counts: Counter[Failure] = Counter()
    for wave in waves:
        succeeded = {step.tool.name for step in wave if step.tool.outcome != "failed"}
        failed = {
            _to_failure(step, arguments.get(step.tool.call_id, {})): step
            for step in wave
            if step.tool.outcome == "failed" and step.tool.name not in succeeded
        }
        if succeeded:
            failing = {tool for tool, *_ in failed}
            counts = Counter({failure: count for failure, count in counts.items() if failure[0] in failing})
        counts.update(failed.keys())
        for failure, step in failed.items():
            if counts[failure] >= SAME_FAILURES:
                reason = str(step.value.get("message", ""))
                raise ToolKeepsFailing(tool=step.tool.name, reason=reason[:SHOWN_CHARS].rstrip("."))


def _to_failure(step: Step, arguments: Mapping[str, Any]) -> Failure:
    message = str(step.value.get("message", ""))
    mentions = {}
    for name, value in arguments.items():
        if isinstance(value, str):
            is_mentioned = len(value) > 1 and value in message
        else:
            is_mentioned = type(value) is int and re.search(rf"(?<!\d){value}(?!\d)", message) is not None
        if is_mentioned:
            mentions[name] = value
    # The arguments that the error names, otherwise all of them. A service that is down fails for any arguments.
    relevant = {} if step.value.get("temporary") else mentions or arguments
    # Another case or other spaces make no other try.
    matter = {
        name: " ".join(value.lower().split()) if isinstance(value, str) else value for name, value in relevant.items()
    }
    # Errors that differ only in numbers or quoted names count as the same error.
    return (
        step.tool.name,
        " ".join(NUMBER.sub("#", QUOTED.sub("…", message.lower())).split()),
        json.dumps(matter, sort_keys=True),
    )
