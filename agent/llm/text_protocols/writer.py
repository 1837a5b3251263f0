"""Requests as text, for models without tool calling: tools as instructions, calls as blocks, results as messages."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from agent.llm.completions import ModelRequest
from agent.llm.protocols.patterns import CALL, DELEGATE, TAG
from agent.llm.protocols.plain_text import (
    Message,
    describe,
    dotted,
    escape_tags,
    merge_messages,
    merge_roles,
    role_of,
    without_results,
    write_results,
)
from agent.llm.protocols.protocol import Protocol
from agent.llm.protocols.scanner import NO_JSON, from_json
from agent.prompts import prompts

# The size of the cache; there are few different tool lists, by permission and persona.
KEPT_TEXTS = 64


def to_tag(name: str, arguments: str) -> str:
    """Return a tool call with this wire name as a tag."""
    server, _, tool = name.partition("__")
    names = {"server_name": server, "tool_name": tool} if tool else {"tool_name": name}
    return f"<{TAG}>{escape_tags(_block(names, arguments))}</{TAG}>"


def to_fence(name: str, arguments: str) -> str:
    """Return a tool call with this wire name as a fenced block."""
    return f"```{CALL}\n{_block({'tool': dotted(name)}, arguments)}\n```"


class PlainWriter:
    """Writes requests in one text protocol: without tools and tool roles, with alternating roles, deterministically."""

    def __init__(self, protocol: str, write_call: Callable[[str, str], str]) -> None:
        self._protocol = protocol
        self._write_call = write_call
        self._instructions: dict[int, tuple[Sequence[Mapping[str, Any]], str]] = {}

    def write(self, request: ModelRequest) -> ModelRequest:
        """Return the request as text."""
        calls = {
            call["id"]: call["function"] for message in request.messages for call in message.get("tool_calls") or ()
        }
        plain = [
            {"role": "user", "content": write_results(group, calls)}
            if role == "tool"
            else merge_messages({"role": role, "content": self._content(message)} for message in group)
            for role, group in groupby(request.messages, key=role_of)
        ]
        if request.tools:
            tools = request.tools
            # The cache also holds the list itself, so that its id can't be reused by another list.
            entry = self._instructions.get(id(tools))
            if entry is None:
                while len(self._instructions) >= KEPT_TEXTS:
                    self._instructions.pop(next(iter(self._instructions)))
                entry = self._instructions[id(tools)] = (tools, self._render(tools))
            text = entry[1]
            if plain and plain[0]["role"] == "system":
                plain = [merge_messages([plain[0], {"role": "system", "content": text}]), *plain[1:]]
            else:
                plain = [{"role": "system", "content": text}, *plain]
        return replace(request, messages=merge_roles(plain), tools=())

    def _content(self, message: Message) -> Any:
        content = message.get("content") or ""
        if message["role"] == "user":
            return without_results(content)
        blocks = [
            self._write_call(call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ]
        return "\n\n".join([*([content] if content else []), *blocks]) if blocks else content

    def _render(self, tools: Sequence[Mapping[str, Any]]) -> str:
        texts = prompts().protocols
        functions = [tool["function"] for tool in tools]
        delegates = any(function["name"].rpartition("__")[2] == DELEGATE for function in functions)
        form = [texts.tool_tag if self._protocol == "tool_tag" else texts.fenced, texts.rules]
        if delegates:
            form.append(texts.delegate)
        return "\n\n".join([*form, texts.list_heading, "\n".join(map(describe, functions))])


def _block(names: Mapping[str, str], arguments: str) -> str:
    document = from_json(arguments)
    return json.dumps({**names, "arguments": arguments if document is NO_JSON else document}, ensure_ascii=False)


TEXT_PROTOCOLS = {
    "tool_tag": Protocol(frozenset({TAG, DELEGATE}), PlainWriter("tool_tag", to_tag)),
    "fenced": Protocol(frozenset({CALL, DELEGATE}), PlainWriter("fenced", to_fence)),
}
