"""Steps of the journal as messages in the OpenAI shape."""

from collections.abc import Sequence
from typing import Any

from agent.context.history import PastStep
from agent.context.images import PromptImages, with_images
from agent.context.quoting import with_speaker, without_context_tags
from agent.journal.steps import Step
from agent.prompts import prompts
from agent.tools.arguments import to_shown_arguments
from agent.tools.offer import to_wire_name

ModelMessage = dict[str, Any]


def to_messages(steps: Sequence[Step]) -> list[ModelMessage]:
    """Return assistant and tool steps in the OpenAI shape: whole pairs of call and result, in the model's order."""
    results = {step.tool_call_id: step for step in steps if step.role == "tool_result"}
    messages: list[ModelMessage] = []
    for index, step in enumerate(steps):
        if step.role != "assistant":
            continue
        calls = [call for call in _calls_after(steps, index) if call.tool_call_id in results]
        if calls or step.content:
            messages.append(_assistant(step, calls))
        messages += [_tool_result(results[call.tool_call_id]) for call in calls]
    return messages


def to_past_turn(turn: Sequence[PastStep], images: PromptImages, *, is_shared: bool) -> list[ModelMessage]:
    """Return the messages of one turn of the history."""
    file_ids = images.by_turn.get(turn[0].turn_id, ())
    asked = [to_user_message(each.step, file_ids, is_shared=is_shared) for each in turn if each.step.role == "user"]
    return asked + to_messages([each.step for each in turn])


def to_user_message(step: Step, file_ids: Sequence[int], *, is_shared: bool) -> ModelMessage:
    """Return a person's message; where others read along, with the name of its author."""
    content = without_context_tags(step.content) or prompts().turn.no_text
    return {
        "role": "user",
        "content": with_images(with_speaker(step.speaker, content) if is_shared else content, file_ids),
    }


def _calls_after(steps: Sequence[Step], index: int) -> list[Step]:
    calls: list[Step] = []
    for step in steps[index + 1 :]:
        if step.role == "assistant":
            break
        if step.role == "tool_call":
            calls.append(step)
    return calls


def _assistant(step: Step, calls: Sequence[Step]) -> ModelMessage:
    if not calls:
        return {"role": "assistant", "content": step.content}
    requested = [
        {
            "id": call.tool_call_id,
            "type": "function",
            "function": {"name": to_wire_name(str(call.tool_name)), "arguments": to_shown_arguments(call.content)},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": step.content or None, "tool_calls": requested}


def _tool_result(step: Step) -> ModelMessage:
    return {"role": "tool", "tool_call_id": step.tool_call_id, "content": step.content}
