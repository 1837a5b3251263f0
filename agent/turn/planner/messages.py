"""Writes a conversation as plain text for a model in planner mode: answers as plans, results as user messages.

Until then messages keep the OpenAI shape, with a turn's own plans under the key `plan`. They are converted to text only
for the selected route, after messages that do not fit its context window have been removed.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.journal.steps import Step
from agent.llm.completions import ModelRequest
from agent.llm.protocols.plain_text import describe, dotted, merge_roles, without_results, write_results
from agent.prompts import prompts
from agent.turn.context.builder import to_messages
from agent.turn.planner.plan import Plan
from shared.text import count_tokens

Message = dict[str, Any]


def to_planned(steps: Sequence[Step]) -> list[Message]:
    """Convert the sorted steps of a turn to messages in the OpenAI shape, each answer with its plan under `plan`."""
    messages: list[Message] = []
    answers = [place for place, step in enumerate(steps) if step.role == "assistant"]
    for start, end in pairwise([*answers, len(steps)]):
        answer, *others = to_messages(steps[start:end]) or [{"role": "assistant", "content": ""}]
        messages += [{**answer, "plan": steps[start].plan}, *others]
    return messages


def count_form() -> int:
    """Return an upper estimate, in tokens, of the planning instructions in a prompt, without the list of tools."""
    return count_tokens(_write_instructions(()))


class PlanWriter(Struct, frozen=True):
    """Converts requests to plain text for planner mode, without native tools and tool roles; deterministic.

    `note` is added as the last message if it is not empty.
    """

    note: str = ""

    def write(self, request: ModelRequest) -> ModelRequest:
        """Return the request with all of its messages and tools as plain text."""
        instructions = {"role": "system", "content": _write_instructions(request.tools)}
        is_led = bool(request.messages) and request.messages[0]["role"] == "system"
        messages: list[Message] = [*request.messages[:1], instructions] if is_led else [instructions]
        others = request.messages[1:] if is_led else request.messages
        for role, group in groupby(others, key=itemgetter("role")):
            if role == "assistant":
                messages += [plain_message for message in group for plain_message in _to_plain(message)]
            elif role == "tool":
                calls, ids = messages[-1].get("calls", {}), messages[-1].get("ids", {})
                results = [
                    message | {"tool_call_id": ids.get(id_ := message["tool_call_id"], id_)} for message in group
                ]
                messages.append({"role": "user", "content": write_results(results, calls)})
            else:
                texts = (without_results(message.get("content") or "") for message in group)
                messages += [{"role": role, "content": text} for text in texts]
        if self.note:
            messages.append({"role": "user", "content": self.note})
        plain = [{"role": message["role"], "content": message["content"]} for message in messages]
        return replace(request, messages=merge_roles(plain), tools=())


def _write_instructions(tools: Sequence[Mapping[str, Any]]) -> str:
    texts = prompts()
    form = [texts.planner.form, texts.planner.rules]
    if not tools:
        return "\n\n".join([*form, texts.planner.no_tools])
    listing = "\n".join(describe(tool["function"]) for tool in tools)
    return "\n\n".join([*form, texts.protocols.list_heading, listing])


def _to_plain(message: Message) -> list[Message]:
    journal_plan = message.get("plan")
    if journal_plan is not None and "broken" in journal_plan:
        error = prompts().planner.broken.format(error=journal_plan["error"])
        return [{"role": "assistant", "content": journal_plan["broken"]}, {"role": "user", "content": error}]
    tool_calls = list(message.get("tool_calls") or ())
    ids = {call["id"]: call["id"] for call in tool_calls}
    if journal_plan is None:
        # Models imitate their earlier answers in the prompt, so answers of other modes are shown as plans too.
        tools = [
            {
                "id": call["id"],
                "tool": dotted(call["function"]["name"]),
                "args": json.loads(call["function"]["arguments"]),
            }
            for call in tool_calls
        ]
        status = "continue" if tools else "done"
        content = _to_json({"status": status, "tools": tools, "response": message.get("content") or ""})
    else:
        plan = Plan.from_journal(journal_plan)
        tools = [
            {"id": call.id, "tool": call.tool, "args": call.args, "needs": list(call.needs)} for call in plan.calls
        ]
        head = {"reasoning": plan.reasoning, "status": plan.status, "action": plan.action, "slots": plan.slots}
        content = _to_json({**head, "tools": tools, "response": plan.response})
        ids |= {call["id"]: planned.id for call, planned in zip(tool_calls, plan.calls, strict=False)}
    # Results refer to calls by the ids used in the plan.
    calls = {ids[call["id"]]: call["function"] for call in tool_calls}
    return [{"role": "assistant", "content": content, "calls": calls, "ids": ids}]


def _to_json(plain: Mapping[str, Any]) -> str:
    # JSON from the database has lost the order of its keys; sorting makes the text of a plan the same after a restart.
    ordered = {key: json.loads(json.dumps(value, sort_keys=True)) for key, value in plain.items()}
    return json.dumps(ordered, ensure_ascii=False)
