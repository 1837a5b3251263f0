"""The offline model, which needs no provider: it understands a few simple requests and makes real tool calls."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from agent.llm.built_in import BuiltInModel
from agent.llm.completions import AttemptState, Completion, ModelRequest, ToolCall, estimate
from agent.llm.offline.intents import TODAY, understand, without_speaker
from agent.llm.offline.result_text import Result, describe_result
from shared.arithmetic import NoSum, find_sum, work_out
from shared.clock import Clock
from shared.messages import Usage

CONTEXT_START, CONTEXT_END = "<context>\n", "</context>"
NOW_LINE = re.compile(r"^Now: (.+)$", re.MULTILINE)
SUM_WORDS = re.compile(
    r"^(?:what is|what's|how much is|calculate|compute|was ist|wie viel ist|rechne)\s+", re.IGNORECASE
)
# Tools that calculate are recognised by this argument, not by their names.
EXPRESSION = "expression"

SETUP = (
    "I am Parley's small offline model: no language model is configured. For real answers, put `LLM_MODELS` (for "
    "example `LLM_MODELS=gpt-4o-mini`) and the provider's key (`OPENAI_API_KEY=…`) into `.env` and start me again."
)
# Example requests: the function name of a tool (None: no tool), and a sentence that calls it.
EXAMPLES = (
    ("remember", "remember that my cat is called Tom"),
    ("recall", "what do you know about my cat?"),
    ("create_document", "create a document called Plan with: first we eat"),
    ("list_files", "list my files"),
    ("resolve_date_hint", "what day is next Friday?"),
    (None, "what is 12*(3+4)?"),
)


class _Exchange(Struct, frozen=True):
    """The parts of a request that the model reads: the person's message, the current time, and the tool results."""

    message: str
    now: str | None
    results: tuple[Result, ...]


class _Call(Struct, frozen=True):
    function: str
    arguments: dict[str, Any]


class OfflineModel:
    """Answers without a provider, deterministically and at no cost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def complete(self, name: str, request: ModelRequest, attempt: AttemptState) -> Completion:
        """Return a tool call, a description of the last tool result, or an introduction."""
        # Of several tools with the same function name, the one counts whose module has most of what it understands.
        functions = {function for function, _ in EXAMPLES}
        schemas = [tool["function"] for tool in reversed(request.tools)]
        names = [(tool, *tool["name"].rpartition("__")[::2]) for tool in schemas]
        understood = Counter(module for _, module, function in names if function in functions)
        tools = {function: tool for tool, _, function in sorted(names, key=lambda name: understood[name[1]])}
        reply = self._reply(_to_exchange(request.messages), tools)
        text = reply if isinstance(reply, str) else ""
        calls: tuple[ToolCall, ...] = ()
        if isinstance(reply, _Call):
            arguments = json.dumps(reply.arguments, ensure_ascii=False)
            calls = (ToolCall(f"call_{uuid4().hex[:24]}", tools[reply.function]["name"], arguments),)
        if attempt.on_text is not None:
            for piece in re.findall(r"\S+\s*|\s+", text):
                attempt.on_text(piece)
                # Yields to the event loop after each word.
                await asyncio.sleep(0)
        # Only this exchange is counted, because the whole prompt would use up a guest's budget within minutes.
        short_request = replace(
            request, messages=request.messages[max(0, _index_of_question(request.messages)) :], tools=()
        )
        counted = estimate(short_request, text, calls)
        usage = Usage(counted.input_tokens, 0, counted.output_tokens, cost=0.0)
        return Completion(text, tool_calls=calls, stop="tool_use" if calls else "end_turn", usage=usage, model=name)

    def _reply(self, exchange: _Exchange, tools: Mapping[str, Any]) -> str | _Call:
        intent = understand(exchange.message)
        if exchange.results:
            last = exchange.results[-1]
            memory_id = last.first_id()
            if (
                intent is not None
                and intent.is_to_forget
                and last.function == intent.function
                and memory_id
                and "forget" in tools
            ):
                return _Call("forget", {"memory_id": memory_id})
            return describe_result(last)
        expression = find_sum(SUM_WORDS.sub("", without_speaker(exchange.message)))
        if expression is not None:
            return _sum(expression, tools)
        if TODAY.match(without_speaker(exchange.message)):
            return f"It is {exchange.now or f'{self._clock.now():%A, %d %B %Y, %H:%M} (UTC)'}."
        if intent is None:
            return _introduction(tools)
        if intent.function not in tools:
            return f"I understand what you would like, but there is no tool for it here.\n\n{_introduction(tools)}"
        return _Call(intent.function, intent.arguments)


def _to_exchange(messages: Sequence[Mapping[str, Any]]) -> _Exchange:
    index = _index_of_question(messages)
    text = _text_of(messages[index]) if index >= 0 else ""
    now = NOW_LINE.search(text)
    if text.rstrip().endswith(CONTEXT_END):
        text = text.partition(CONTEXT_START)[0]
    later = messages[index + 1 :]
    calls = {call["id"]: call["function"] for message in later for call in message.get("tool_calls") or ()}
    results = tuple(
        Result(
            calls[message["tool_call_id"]]["name"].rpartition("__")[2],
            _from_json(calls[message["tool_call_id"]]["arguments"]),
            _from_json(_text_of(message)),
        )
        for message in later
        if message["role"] == "tool"
    )
    return _Exchange(text.strip(), now[1] if now else None, results)


def _index_of_question(messages: Sequence[Mapping[str, Any]]) -> int:
    # A user message right after a tool result was added by us, not written by the person.
    for index in range(len(messages) - 1, -1, -1):
        after_tool = index > 0 and messages[index - 1]["role"] == "tool"
        if messages[index]["role"] == "user" and not after_tool:
            return index
    return -1


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _sum(expression: str, tools: Mapping[str, Any]) -> str | _Call:
    for function, tool in tools.items():
        if tool.get("parameters", {}).get("required") == [EXPRESSION]:
            return _Call(function, {EXPRESSION: expression})
    try:
        return f"{expression} = {work_out(expression)}"
    except NoSum:
        return "I can't work that out."


def _introduction(tools: Mapping[str, Any]) -> str:
    lines = [f"- {sentence}" for function, sentence in EXAMPLES if function is None or function in tools]
    return "\n".join([SETUP, "", "Until then I understand a few plain requests, such as:", *lines])


# It cannot answer planner requests.
OFFLINE_MODEL = BuiltInModel("offline", lambda _settings, clock: OfflineModel(clock), is_fallback=True, can_plan=False)
