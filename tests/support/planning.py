"""Builds plans as a model in planner mode writes them, and parses what it is shown."""

import json
import re
from typing import Any

RESULT = re.compile(r'<tool_result name="([^"]*)" id="([^"]*)">\n(.*?)\n</tool_result>', re.DOTALL)


def plan(*tools: dict[str, Any], status: str = "", response: str = "", **fields: Any) -> str:
    """Return a plan as text; without tools it is done."""
    document = {
        "reasoning": "Because.",
        "status": status or ("continue" if tools else "done"),
        "action": "act",
        "slots": {},
        "tools": list(tools),
        "response": response,
        **fields,
    }
    return json.dumps(document, ensure_ascii=False)


def call(tool: str, plan_id: str = "a", *needs: str, **args: Any) -> dict[str, Any]:
    return {"id": plan_id, "tool": tool, "args": args, "needs": list(needs)}


def results_in(body: dict[str, Any]) -> dict[str, Any]:
    """Return the results in the last message of a request, by the ids of the plan, in the order they are shown in."""
    matches = RESULT.findall(body["messages"][-1]["content"])
    return {plan_id: json.loads(content) for _, plan_id, content in matches}
