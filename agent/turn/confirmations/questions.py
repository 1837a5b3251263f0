"""Reads requests for approval, and what became of them, from the journal of a turn."""

import json
from collections.abc import Iterable, Sequence

from msgspec import Struct

from agent.journal.steps import Step
from agent.prompts import prompts
from agent.tools.approvals import MAX_SHOWN_CHARS
from agent.tools.outcomes import ApprovalRequest

# The answers that a question offers.
CHOICES = ("yes", "no")


class HeldCall(Struct, frozen=True):
    """A call that waits for approval; `arguments` is JSON text, `question` what the user is asked about it."""

    tool: str
    arguments: str
    question: str


def combine(requests: Sequence[ApprovalRequest]) -> ApprovalRequest | None:
    """Return one request for the first of these requests and those that can be asked together with it; None for none.

    That are calls of the same agent that need the same approver, as long as all of the question fits.
    """
    if not requests:
        return None
    first, chars = requests[0], 0
    together: list[ApprovalRequest] = []
    for request in requests:
        is_alike = (request.agent, request.approver) == (first.agent, first.approver)
        chars += len(request.text) if is_alike else 0
        if together and chars > MAX_SHOWN_CHARS:
            break
        together += [request] if is_alike else []
    if len(together) == 1:
        return first
    calls = [call for request in together for call in list_calls(request.tool, request.arguments, request.text)]
    blocks = [f"**{number}.** {call.question}" for number, call in enumerate(calls, 1)]
    return ApprovalRequest(
        first.call_id,
        ", ".join(call.tool for call in calls),
        arguments=json.dumps(
            [{"tool": call.tool, "arguments": json.loads(call.arguments), "question": call.question} for call in calls],
            ensure_ascii=False,
        ),
        text="\n\n".join([prompts().confirmation.several.format(count=len(calls)), *blocks]),
        reason="taint" if any(request.reason == "taint" for request in together) else "tool",
        agent=first.agent,
        approver=first.approver,
    )


def list_calls(tool: str, arguments: str, question: str) -> list[HeldCall]:
    """Return the calls of a request for approval with these fields, in the model's order."""
    value = json.loads(arguments)
    # The arguments of one call are an object.
    if not isinstance(value, list):
        return [HeldCall(tool, arguments, question)]
    return [
        HeldCall(call["tool"], json.dumps(call["arguments"], ensure_ascii=False), call["question"]) for call in value
    ]


def find_question(result: Step) -> ApprovalRequest | None:
    """Return the request for approval that a call's result contains; None when it contains none."""
    if result.tool.outcome != "needs_approval" or result.tool.confirmation is None:
        return None
    return ApprovalRequest(**result.tool.confirmation)


def find_last_question(steps: Sequence[Step]) -> ApprovalRequest | None:
    """Return the question that a turn has ended with, given all of its steps; None when it ended otherwise."""
    question = combine_questions(step for step in steps if step.role == "tool_result")
    last = next((step.content for step in reversed(steps) if step.role == "assistant"), None)
    return question if question is not None and question.shown == last else None


def combine_questions(results: Iterable[Step]) -> ApprovalRequest | None:
    """Return the question about those calls, of which these are the results, that need approval."""
    questions = map(find_question, results)
    return combine([question for question in questions if question is not None])


def describe_decision(steps: Sequence[Step]) -> str:
    """Return a sentence for the user about the outcome of each approved or denied call; empty when there is none."""
    results = {step.tool.call_id: step for step in steps if step.role == "tool_result"}
    texts, sentences = prompts().confirmation, []
    for call in steps:
        result = results.get(call.tool.call_id) if call.role == "tool_call" else None
        if result is None or call.tool.confirmation is None:
            continue
        if not call.tool.confirmation["approved"]:
            sentences.append(texts.not_done.format(tool=call.tool.name))
        elif result.tool.outcome in ("failed", "not_run"):
            sentences.append(texts.failed.format(tool=call.tool.name, message=result.value.get("message", "")))
        else:
            sentences.append(texts.done.format(tool=call.tool.name))
    return "\n".join(sentences)
