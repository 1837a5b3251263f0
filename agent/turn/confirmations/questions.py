"""Reads requests for approval, and what became of them, from the journal of a turn."""

from collections.abc import Sequence
from typing import Any

from agent.journal.steps import Step
from agent.prompts import prompts
from agent.tools.approvals import to_taint_question
from agent.tools.outcomes import ApprovalRequest
from agent.tools.results import ASKED

# The answers that a question offers.
CHOICES = ("yes", "no")


def find_question(call: Step, result: Step) -> ApprovalRequest | None:
    """Return the request for approval that a call's result contains; None when it contains none."""
    if result.tool.outcome != "needs_approval":
        return None
    if result.tool.confirmation is not None:
        return ApprovalRequest(**result.tool.confirmation)
    return _of_older_release(call, result.value[ASKED])


def _of_older_release(call: Step, asked: dict[str, Any]) -> ApprovalRequest:
    # The previous release stored the question only in the result's JSON; a question of an agent with the agent's call.
    approver = asked.get("approver")
    if "agent" in asked:
        return ApprovalRequest(
            asked["call_id"],
            asked["tool"],
            asked["arguments"],
            text=asked["question"],
            reason=asked["reason"],
            agent=asked["agent"],
            approver=approver,
        )
    tool = call.tool.name
    question = asked["question"] if asked["reason"] == "tool" else to_taint_question(tool, call.value)
    return ApprovalRequest(
        call.tool.call_id, tool, arguments=call.content, text=question, reason=asked["reason"], approver=approver
    )


def find_last_question(steps: Sequence[Step]) -> ApprovalRequest | None:
    """Return the question that a turn has ended with, given all of its steps; None when it ended otherwise."""
    calls = {step.tool.call_id: step for step in steps if step.role == "tool_call"}
    results = [step for step in steps if step.role == "tool_result"]
    questions = [find_question(calls[step.tool.call_id], step) for step in results]
    last = next((step.content for step in reversed(steps) if step.role == "assistant"), None)
    return next((each for each in questions if each is not None and each.shown == last), None)


def describe_decision(steps: Sequence[Step]) -> str:
    """Return a sentence for the user about the outcome of the approved or denied call; empty when there is none."""
    call = next((step for step in steps if step.role == "tool_call" and step.tool.confirmation is not None), None)
    if call is None or call.tool.confirmation is None:
        return ""
    results = (step for step in steps if step.role == "tool_result" and step.tool.call_id == call.tool.call_id)
    result = next(results, None)
    if result is None:
        return ""
    texts = prompts().confirmation
    if not call.tool.confirmation["approved"]:
        return texts.not_done.format(tool=call.tool.name)
    if result.tool.outcome in ("failed", "not_run"):
        return texts.failed.format(tool=call.tool.name, message=result.value.get("message", ""))
    return texts.done.format(tool=call.tool.name)
