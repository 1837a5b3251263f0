"""Marks where a provider may cache the beginning of a prompt, for those that cache nothing by themselves.

The messages are marked that end what stays the same: the instructions, the history, and the whole of this request,
which the next call of the same turn begins with.
"""

from collections.abc import Sequence
from typing import Any

MARK = {"type": "ephemeral"}
# Anthropic's models, whoever runs them. All other providers cache by themselves, or refuse the mark.
MARKED_MODELS = "claude"
UNMARKED_ROUTES = ("openai/", "hosted_vllm/")

Message = dict[str, Any]


def needs_marks(model: str) -> bool:
    """Return whether the provider of this model (litellm's name) caches only what is marked."""
    return MARKED_MODELS in model.lower() and not model.startswith(UNMARKED_ROUTES)


def with_marks(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with marks at the ends of what stays the same; at most three of the four that are allowed."""
    ends = {_last(messages, "system"), _last(messages, "user") - 1, len(messages) - 1}
    return [_marked(each) if place in ends else each for place, each in enumerate(messages)]


def _last(messages: Sequence[Message], role: str) -> int:
    # A user message right after a tool result was added by us, so it is not this turn's message.
    places = [
        place
        for place, each in enumerate(messages)
        if each["role"] == role and not (place and messages[place - 1]["role"] == "tool")
    ]
    return places[-1] if places else -1


def _marked(message: Message) -> Message:
    content = message.get("content")
    if isinstance(content, list) and content:
        return {**message, "content": [*content[:-1], {**content[-1], "cache_control": MARK}]}
    if isinstance(content, str) and content:
        return {**message, "cache_control": MARK}
    # An empty text can't be marked.
    return message
