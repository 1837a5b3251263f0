"""Outcomes of calls that need the user's approval: the question to the user, and the result shown to the model."""

import json
from collections.abc import Mapping
from typing import Any

from agent.prompts import prompts
from agent.tools.calls import PendingCall
from agent.tools.outcomes import ApprovalRequest, Failed, ModelWork, NeedsApproval, failed
from shared.errors import ConfirmationNeeded
from shared.messages import Permission
from shared.text import escape_invisible

MAX_SHOWN_CHARS = 6000


def request_for_tool(call: PendingCall, confirmation: ConfirmationNeeded) -> NeedsApproval | Failed:
    """Return the outcome of a call whose tool asks for the user's approval."""
    level: Permission | None = confirmation.fields.get("approver")
    question, approver = str(confirmation.fields["question"]), level.label if level is not None else None
    if call.shows_arguments:
        if (size := len(show_arguments(call.arguments))) > MAX_SHOWN_CHARS:
            return failed(prompts().confirmation.too_long.format(size=size, most=MAX_SHOWN_CHARS))
        question += to_block(call.arguments)
    request = _to_request(call, question, reason="tool", approver=approver)
    return _hold(call, request, prompts().confirmation.asked)


def request_for_agent(call: PendingCall, request: ApprovalRequest, work: ModelWork) -> NeedsApproval | Failed:
    """Return the outcome of a delegation to an agent that waits for the approval of one of its own calls."""
    return _hold(call, request, prompts().confirmation.asked_by_child, work=work)


def request_for_taint(call: PendingCall) -> NeedsApproval | Failed:
    """Return the outcome of a call that needs approval because the prompt holds untrusted text and private data.

    The call fails when its arguments, as shown to the user, are longer than `MAX_SHOWN_CHARS` characters.
    """
    if not call.scope.can_ask:
        return failed(prompts().confirmation.nobody_to_ask)
    if (size := len(show_arguments(call.arguments))) > MAX_SHOWN_CHARS:
        return failed(prompts().confirmation.too_long.format(size=size, most=MAX_SHOWN_CHARS))
    request = _to_request(call, to_taint_question(call.name, call.arguments), reason="taint", approver=None)
    return _hold(call, request, prompts().confirmation.asked)


def _to_request(call: PendingCall, text: str, reason: Any, approver: str | None) -> ApprovalRequest:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return ApprovalRequest(call.id, call.name, arguments=arguments, text=text, reason=reason, approver=approver)


def _hold(
    call: PendingCall, request: ApprovalRequest, message: str, *, work: ModelWork | None = None
) -> NeedsApproval | Failed:
    work = work or ModelWork()
    if not call.scope.can_ask:
        return Failed(failed(prompts().confirmation.nobody_to_ask).content, work)
    return NeedsApproval(json.dumps({"message": message}, ensure_ascii=False), request, work)


def to_taint_question(tool: str, arguments: Mapping[str, Any]) -> str:
    """Build the question to the user: the tool and all its arguments, quoted so that they cannot imitate our text."""
    question = prompts().confirmation.taint.format(tool=tool)
    return question + to_block(arguments)


def to_block(arguments: Mapping[str, Any]) -> str:
    """Return all arguments of a call as the end of its question."""
    return f"\n\n```json\n{show_arguments(arguments)}\n```"


def show_arguments(arguments: Mapping[str, Any]) -> str:
    """Return indented JSON for the user, with backquotes and invisible characters escaped."""
    plain = json.dumps(arguments, ensure_ascii=False, indent=2)
    # A backquote would end the code block.
    return escape_invisible(plain).replace("`", "\\u0060")
