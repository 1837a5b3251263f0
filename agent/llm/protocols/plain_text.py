"""Converts parts of a conversation to plain text for the text protocols: tools, results, merged roles."""

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from agent.prompts import prompts
from shared.tools import GARBLED

RESULT = "tool_result"
# Up to eight other characters between the bracket and the word also match.
RESULTS = re.compile(rf"<[^\w<]{{0,8}}{RESULT}", re.IGNORECASE)
Message = dict[str, Any]
Calls = Mapping[str, Mapping[str, str]]


def merge_roles(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages, with consecutive messages of the same role merged into one."""
    return tuple(merge_messages(group) for _, group in groupby(messages, key=role_of))


def describe(function: Mapping[str, Any]) -> str:
    """Return a tool's name, description and argument schema as text."""
    schema = json.dumps(function.get("parameters") or {}, ensure_ascii=False, separators=(",", ":"))
    description = " ".join(str(function.get("description") or "").split())
    return f"- {dotted(function['name'])}: {description}\n  {schema}"


def write_results(messages: Iterable[Message], calls: Calls) -> str:
    """Return tool results as one text with an XML element each; `calls` has the functions by call id."""
    parts = [prompts().protocols.results_heading]
    is_garbled = False
    for message in messages:
        call = calls.get(message["tool_call_id"], {})
        name = dotted(call.get("name", ""))
        # The content is JSON, where this escape changes nothing: a result can't close its element and open another.
        content = escape_tags(str(message.get("content") or ""))
        parts.append(f'<{RESULT} name="{name}" id="{message["tool_call_id"]}">\n{content}\n</{RESULT}>')
        is_garbled = is_garbled or call.get("arguments", "").startswith(f'{{"{GARBLED}"')
    if is_garbled:
        parts.append(prompts().protocols.garbled)
    return "\n\n".join(parts)


def merge_messages(messages: Iterable[Message]) -> Message:
    """Return messages of one role as one message."""
    # The chat templates of many models without tool calling require alternating roles.
    first, *others = messages
    merged = first
    for other in others:
        before, after = merged["content"], other["content"]
        if isinstance(before, str) and isinstance(after, str):
            content: Any = f"{before}\n\n{after}".strip()
        else:
            content = [*_parts(before), *_parts(after)]
        merged = {"role": first["role"], "content": content}
    return merged


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def without_results(content: Any) -> Any:
    """Return a person's text, changed where it would look like the element of a tool's result."""
    if isinstance(content, str):
        return RESULTS.sub(f"< {RESULT}", content)
    return [{**part, "text": without_results(part["text"])} if "text" in part else part for part in content]


def escape_tags(text: str) -> str:
    """Return equivalent JSON text without closing tags."""
    return text.replace("</", "<\\/")


def dotted(name: str) -> str:
    """Convert a wire name to `module.tool`."""
    return name.replace("__", ".", 1)


def role_of(message: Message) -> str:
    """Return the role of a message."""
    return str(message["role"])
