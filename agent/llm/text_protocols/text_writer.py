"""A request in words, for models without tool calling: tools as instructions, calls as blocks, results as a message."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from agent.llm.completions import ModelRequest
from agent.llm.text_protocols.patterns import CALL, DELEGATE, TAG
from agent.llm.text_protocols.scanner import NO_JSON, from_json
from agent.prompts import prompts
from agent.tools.arguments import GARBLED

# Offers differ by permission and persona; there are never many.
KEPT_TEXTS = 64
RESULT = "tool_result"
# However it is disguised.
RESULTS = re.compile(rf"<[^\w<]{{0,8}}{RESULT}", re.IGNORECASE)

Message = dict[str, Any]
Calls = Mapping[str, Mapping[str, str]]


def to_tag(name: str, arguments: str) -> str:
    """Return a call, given by its wire name, as a tag."""
    server, _, tool = name.partition("__")
    named = {"server_name": server, "tool_name": tool} if tool else {"tool_name": name}
    return f"<{TAG}>{_without_tags(_block(named, arguments))}</{TAG}>"


def to_fence(name: str, arguments: str) -> str:
    """Return a call, given by its wire name, as a fenced block."""
    return f"```{CALL}\n{_block({'tool': dotted(name)}, arguments)}\n```"


class PlainWriter:
    """Writes requests in one text protocol: no tools and no tool roles, roles alternate, same in gives same out."""

    def __init__(self, protocol: str, write_call: Callable[[str, str], str]) -> None:
        self._protocol = protocol
        self._write_call = write_call
        self._instructions: dict[int, tuple[Sequence[Mapping[str, Any]], str]] = {}

    def write(self, request: ModelRequest) -> ModelRequest:
        """Return the request in words."""
        calls = {call["id"]: call["function"] for each in request.messages for call in each.get("tool_calls") or ()}
        plain = [
            {"role": "user", "content": write_results(group, calls)} if role == "tool" else _merged(self._said(group))
            for role, group in groupby(request.messages, key=_role)
        ]
        if request.tools:
            plain = _with_instructions(plain, self._instructions_for(request.tools))
        return replace(request, messages=merge_roles(plain), tools=())

    def _said(self, messages: Iterable[Message]) -> list[Message]:
        return [{"role": each["role"], "content": self._content(each)} for each in messages]

    def _content(self, message: Message) -> Any:
        content = message.get("content") or ""
        if message["role"] == "user":
            return without_results(content)
        blocks = [
            self._write_call(call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ]
        return "\n\n".join([*([content] if content else []), *blocks]) if blocks else content

    def _instructions_for(self, tools: Sequence[Mapping[str, Any]]) -> str:
        # The list is kept beside its text, so that no other list can get its id.
        kept = self._instructions.get(id(tools))
        if kept is None:
            while len(self._instructions) >= KEPT_TEXTS:
                self._instructions.pop(next(iter(self._instructions)))
            kept = self._instructions[id(tools)] = (tools, self._render(tools))
        return kept[1]

    def _render(self, tools: Sequence[Mapping[str, Any]]) -> str:
        texts = prompts().protocols
        functions = [tool["function"] for tool in tools]
        delegates = any(each["name"].rpartition("__")[2] == DELEGATE for each in functions)
        form = [texts.tool_tag if self._protocol == "tool_tag" else texts.fenced, texts.rules]
        if delegates:
            form.append(texts.delegate)
        return "\n\n".join([*form, texts.list_heading, "\n".join(map(describe, functions))])


def merge_roles(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages with those of one role in a row made one."""
    return tuple(_merged(group) for _, group in groupby(messages, key=_role))


def describe(function: Mapping[str, Any]) -> str:
    """Return a tool's name, what it is for and the schema of its arguments, as text."""
    schema = json.dumps(function.get("parameters") or {}, ensure_ascii=False, separators=(",", ":"))
    description = " ".join(str(function.get("description") or "").split())
    return f"- {dotted(function['name'])}: {description}\n  {schema}"


def write_results(messages: Iterable[Message], calls: Calls) -> str:
    """Return tool results as elements of one text; `calls` are the calls' functions by id."""
    parts = [prompts().protocols.results_heading]
    is_garbled = False
    for message in messages:
        call = calls.get(message["tool_call_id"], {})
        name = dotted(call.get("name", ""))
        # The content is JSON, in which this escape says the same: no result can end itself and begin another.
        content = _without_tags(str(message.get("content") or ""))
        parts.append(f'<{RESULT} name="{name}" id="{message["tool_call_id"]}">\n{content}\n</{RESULT}>')
        is_garbled = is_garbled or call.get("arguments", "").startswith(f'{{"{GARBLED}"')
    if is_garbled:
        parts.append(prompts().protocols.garbled)
    return "\n\n".join(parts)


def _with_instructions(messages: Sequence[Message], text: str) -> list[Message]:
    if messages and messages[0]["role"] == "system":
        return [_merged([messages[0], {"role": "system", "content": text}]), *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _merged(messages: Iterable[Message]) -> Message:
    # Many models without tool calling have templates that want the roles in turn.
    first, *others = messages
    merged = first
    for each in others:
        merged = {"role": first["role"], "content": _joined(merged["content"], each["content"])}
    return merged


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}".strip()
    return [*_parts(one), *_parts(other)]


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def without_results(content: Any) -> Any:
    """Return what a person wrote, in which nothing looks like a tool's result."""
    # What a person writes is no result, however it looks.
    if isinstance(content, str):
        return RESULTS.sub(f"< {RESULT}", content)
    return [{**part, "text": without_results(part["text"])} if "text" in part else part for part in content]


def _block(named: Mapping[str, str], arguments: str) -> str:
    given = from_json(arguments)
    return json.dumps({**named, "arguments": arguments if given is NO_JSON else given}, ensure_ascii=False)


def _without_tags(text: str) -> str:
    return text.replace("</", "<\\/")


def dotted(name: str) -> str:
    """Return `module.tool` for a wire name."""
    return name.replace("__", ".", 1)


def _role(message: Message) -> str:
    return str(message["role"])
