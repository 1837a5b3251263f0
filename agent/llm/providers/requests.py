"""What only some requests have: marks for the prompt caches of some providers, short ids, and response formats.

Some providers cache nothing by themselves. For those, the messages are marked that end what stays the same: the
instructions, the history, and the whole of this request, which the next call of the same turn begins with.

A response format makes a model answer in JSON, by a schema, by JSON mode, or only by instructions.
OpenAI-compatible servers accept different formats, and only a refused request shows which. A refused request costs
nothing, so the next weaker form is tried; the accepted form is remembered per model.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any

from agent.llm.completions import Cause, Completion, RouteFailed

MARK = {"type": "ephemeral"}
# Anthropic's models by litellm's name, whoever runs them, cache only what is marked. All other providers cache by
# themselves, or refuse the mark.
MARKED_MODEL = re.compile(r"(?!openai/|hosted_vllm/).*claude", re.IGNORECASE)
SHORT_ID_CHARS = 9
SHORT_ID = re.compile(rf"[a-zA-Z0-9]{{{SHORT_ID_CHARS}}}")
SCHEMA_NAME = "plan"

Message = dict[str, Any]


def with_marks(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with marks at the ends of what stays the same; at most three of the four that are allowed."""
    ends = {_last(messages, "system"), _last(messages, "user") - 1, len(messages) - 1}
    copies = list(messages)
    for place in ends.intersection(range(len(messages))):
        content = messages[place].get("content")
        # An empty text can't be marked.
        if isinstance(content, list) and content:
            marked = [*content[:-1], {**content[-1], "cache_control": MARK}]
            copies[place] = {**messages[place], "content": marked}
        elif isinstance(content, str) and content:
            copies[place] = {**messages[place], "cache_control": MARK}
    return copies


def _last(messages: Sequence[Message], role: str) -> int:
    # A user message right after a tool result was added by us, so it is not this turn's message.
    places = [
        place
        for place, message in enumerate(messages)
        if message["role"] == role and not (place and messages[place - 1]["role"] == "tool")
    ]
    return places[-1] if places else -1


def with_short_ids(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with ids of calls as Mistral's API demands them, whichever provider has made them."""
    copies = list(messages)
    for place, message in enumerate(messages):
        if calls := message.get("tool_calls"):
            copies[place] = {**message, "tool_calls": [{**call, "id": _shorten(call["id"])} for call in calls]}
        elif "tool_call_id" in message:
            copies[place] = {**message, "tool_call_id": _shorten(message["tool_call_id"])}
    return copies


def _shorten(call_id: str) -> str:
    is_short = SHORT_ID.fullmatch(call_id) is not None
    return call_id if is_short else sha256(call_id.encode()).hexdigest()[:SHORT_ID_CHARS]


class Form(StrEnum):
    """The forms, from the strictest to the one that every model accepts; `BARE` also omits what samples."""

    SCHEMA = "schema"
    OBJECT = "object"
    WORDS = "words"
    BARE = "bare"


class Forms:
    """Remembers the accepted form by model name."""

    def __init__(self) -> None:
        self._accepted: dict[str, Form] = {}

    async def ask(self, name: str, best: Form, ask: Callable[[Form], Awaitable[Completion]]) -> Completion:
        """Call `ask` with the remembered form, else with each form from `best` on until one is accepted.

        Raises the `RouteFailed` of the last form.
        """
        every = list(Form)
        untried = [self._accepted[name]] if name in self._accepted else every[every.index(best) :]
        while True:
            form = untried.pop(0)
            try:
                completion = await ask(form)
            except RouteFailed as failure:
                if failure.cause is not Cause.REQUEST_REFUSED or not untried:
                    raise
                continue
            self._accepted[name] = form
            return completion


def to_response_format(schema: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """Return the parameter `response_format` for an answer in this form, if the form has one."""
    if form is Form.SCHEMA:
        # Not strict, because a strict schema can't express tool arguments, which are objects with arbitrary keys.
        json_schema = {"name": SCHEMA_NAME, "schema": schema, "strict": False}
        return {"response_format": {"type": "json_schema", "json_schema": json_schema}}
    return {"response_format": {"type": "json_object"}} if form is Form.OBJECT else {}
