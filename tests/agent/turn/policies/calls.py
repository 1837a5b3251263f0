"""Calls and journals as the policies are shown them."""

import json
from collections.abc import Sequence
from typing import Any

from agent.journal.steps import OutcomeKind, Step, ToolUse
from agent.people.participants import ResolvedPersona
from agent.tools.calls import PendingCall
from agent.tools.modules import ModuleTools
from agent.tools.offer import Scope
from agent.tools.toolbox import Toolbox
from shared.messages import Caller, Permission, Place
from shared.tools import Tool, ToolContext

PLACE = Place("test", None, "dm", is_direct=True)


async def look(_context: ToolContext, at: str = "") -> str:
    """Look at something."""
    return at


async def post(_context: ToolContext, text: str) -> str:
    """Post a text."""
    return text


async def rule(_context: ToolContext) -> str:
    """Rule Parley."""
    return "done"


BOX = Toolbox(
    (
        ModuleTools(
            [
                Tool(look, Permission.GUEST, read_only=True, module="wall"),
                Tool(post, Permission.GUEST, module="wall"),
                Tool(rule, Permission.ADMIN, module="wall"),
            ]
        ),
    ),
    2000,
)


def pending(name: str, arguments: dict[str, Any] | None = None, **options: Any) -> PendingCall:
    """Return a call of a guest who was offered everything, as an admin is."""
    persona = ResolvedPersona(None, "Parley", "", None, None, 1000, 10)
    scope = Scope(Caller(1, Permission.GUEST, "Ann"), persona, PLACE, {}, can_ask=options.pop("can_ask", True))
    offer = BOX.offered_to(Scope(Caller(2, Permission.ADMIN, "Bob"), persona, PLACE, {}))
    return PendingCall(options.pop("call_id", "call_1_2"), name, arguments or {}, scope, offer, **options)


def answer(seq: int) -> Step:
    """Return a model's answer at this position."""
    return Step(seq, "assistant", "", model_used="stub")


def call_step(seq: int, name: str, arguments: dict[str, Any]) -> Step:
    """Return a recorded call at this position."""
    return Step(seq, "tool_call", json.dumps(arguments), tool=ToolUse(f"call_1_{seq}", name))


def ended(seq: int, call: Step, outcome: OutcomeKind, value: Any = None) -> Step:
    """Return the result of a call at this position."""
    content = json.dumps(value if value is not None else {"error": True, "message": "no"})
    return Step(seq, "tool_result", content, tool=ToolUse(call.tool.call_id, call.tool.name, outcome=outcome))


def journal(*steps: Step) -> Sequence[Step]:
    """Return the steps of a turn that began with a message."""
    return (Step(0, "user", "hello"), *steps)
