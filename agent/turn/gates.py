"""Why a turn ends without the model's answer: the gates before it, and what interrupts it on its way."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from agent.llm.cooldowns import to_cause_lines
from agent.people.billing.budget import AdmissionStatus
from agent.people.pauses import to_refusal
from agent.prompts import prompts
from agent.tools.outcomes import list_file_ids
from agent.turn.close import TurnResult, to_question
from agent.turn.running import RunningTurn
from shared.errors import (
    LimitExhausted,
    ModelsUnavailable,
    ParleyError,
    Refusal,
    Stopped,
)
from shared.messages import AGENT_ADAPTERS, Permission
from shared.text import had_credential, with_closed_fence

Gate = Callable[[RunningTurn], TurnResult | None]

MAX_FAILURES = 3
ASK_FOR_MORE = ("/more",)


def refuse(turn: RunningTurn, gates: Sequence[Gate]) -> TurnResult | None:
    """Return the result of a turn that the first of these gates ends; None when all let it pass. Raises `Refusal`."""
    return next((result for gate in gates if (result := gate(turn)) is not None), None)


def park(turn: RunningTurn) -> TurnResult | None:
    """End a turn that has failed `MAX_FAILURES` times."""
    start = turn.start
    if start.failures < MAX_FAILURES:
        return None
    cause = f"failed {start.failures} times; last: {start.last_error or 'the worker died'}"
    return TurnResult(prompts().turn.parked, status="failed", finished=False, error="parked", cause=cause)


def stop(turn: RunningTurn) -> None:
    """Refuse a turn whose stop was requested before this attempt."""
    if turn.start.is_stopped:
        raise Stopped


def remind(turn: RunningTurn) -> TurnResult | None:
    """Answer a scheduled job that is a notice with its text."""
    job = turn.message.due_job
    return None if job is None or job.notice is None else TurnResult(job.notice, choices=job.choices)


def pause(turn: RunningTurn) -> None:
    """Refuse a person, or a place, that is paused."""
    if turn.participants.is_paused:
        raise to_refusal(is_person_paused=turn.user.is_paused)


def hide_credential(turn: RunningTurn) -> TurnResult | None:
    """Show no model a message that has a credential in it."""
    return TurnResult(prompts().turn.credential_typed) if had_credential(turn.message.content) else None


def decide(turn: RunningTurn) -> TurnResult | None:
    """Refuse an answer to a question that is closed, or ask the question again when it is unclear which was meant."""
    decision = turn.start.decision
    if decision is not None and decision.refusal is not None:
        raise decision.refusal
    return None if decision is None or decision.again is None else to_question(turn, decision.again, again=True)


def spend(turn: RunningTurn) -> None:
    """Refuse a turn whose budget was used up before its first model call."""
    if turn.spend.admission.status is AdmissionStatus.EXHAUSTED and not turn.log.answers:
        raise turn.spend.admission.refusal()


# In this order; the first that does not let the turn pass decides.
GATES: tuple[Gate, ...] = (park, stop, remind, pause, hide_credential, decide, spend)


def interrupt(turn: RunningTurn, error: ParleyError) -> TurnResult:
    """Return the result of a turn that this error ends: the text the model has written so far, and the reason."""
    result = TurnResult(str(error), finished=False, error=error.code, file_ids=list_file_ids(turn.log.steps))
    if isinstance(error, Stopped):
        return replace(result, text=f"{with_closed_fence(turn.log.partial)}\n\n{error}".strip(), status="cancelled")
    is_others = isinstance(error, LimitExhausted) and not error.fields["is_own"]
    if is_others and turn.message.adapter not in AGENT_ADAPTERS:
        result = replace(result, choices=ASK_FOR_MORE)
    if isinstance(error, Refusal) and not turn.log.answers:
        return replace(result, status="refused")
    sentence = prompts().turn.ended_in_mid_turn.format(sentence=error) if isinstance(error, Refusal) else str(error)
    cause = str(error.__cause__) if error.__cause__ else None
    if isinstance(error, ModelsUnavailable):
        cause = to_cause_lines(error.fields["causes"])
        if turn.user.permission >= Permission.ADMIN:
            sentence += f"\n\n{prompts().turn.model_failures.format(causes=cause)}"
    return replace(
        result,
        text=f"{with_closed_fence(turn.log.partial)}\n\n{sentence}".strip(),
        status="answered" if isinstance(error, Refusal) else "failed",
        cause=cause,
    )
