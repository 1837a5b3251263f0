"""Protocols: encode a request for a route, and decode text, tool calls and thinking from its answer.

A request is in the OpenAI format until it is encoded in the protocol of a route; the decoded answer is the same for
all protocols. So every route can continue every conversation.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.llm.completions import Cause, Completion, OnText, RequestWriter, RouteFailed, to_tool_calls
from agent.llm.protocols.patterns import DELEGATE, TAG
from agent.llm.protocols.scanner import Block, Scanner, from_json
from shared.text import clean, cut

SERVER_KEYS = ("server_name", "server", "module")
TOOL_KEYS = ("tool_name", "tool", "name")
ARGUMENT_KEYS = ("arguments", "parameters", "args")
KNOWN_KEYS = frozenset({*SERVER_KEYS, *TOOL_KEYS, *ARGUMENT_KEYS})
# The tool's name is searched in this many first characters of an invalid block.
NAME_WITHIN = 2000
MAX_NAME = 64
TOOL_NAME, SERVER_NAME = (
    re.compile(rf"""["']?\b(?:{"|".join(keys)})["']?\s{{0,9}}:\s{{0,9}}["']?([\w.-]{{1,{MAX_NAME}}})""")
    for keys in (TOOL_KEYS, SERVER_KEYS)
)
# Longer thinking is cut.
MAX_THINKING = 20_000

Call = tuple[None, str, str]


class Protocol(Struct, frozen=True):
    """The protocol of a route: the kinds of blocks in its answers, and the writer of its requests.

    Without a writer the request is sent unchanged, in the OpenAI format.
    """

    blocks: frozenset[str]
    writer: RequestWriter | None = None

    def with_writer(self, writer: RequestWriter) -> "Protocol":
        """Return the protocol of a request that brings its own writer."""
        return replace(NATIVE if self.writer else self, writer=writer)

    def listen(self, on_text: OnText, on_reset: Callable[[], None], passed: str) -> Scanner:
        """Return a scanner for a streamed answer, which passes the text on without blocks and thinking."""
        return Scanner(self.blocks, on_text, on_reset, passed=passed)

    def decode(self, completion: Completion) -> Completion:
        """Return the answer with tool calls and thinking separated from the text.

        An answer with an unfinished block counts as cut off (`max_tokens`), and none of its calls run. Raises
        `RouteFailed` if the answer has only thinking.
        """
        scanner = Scanner(self.blocks)
        scanner.feed(completion.text)
        scanner.close()
        thinking = cut(f"{completion.thinking}\n\n{scanner.thinking}".strip(), MAX_THINKING)
        is_whole = not (scanner.blocks or scanner.thinking or scanner.is_cut)
        text = scanner.text if is_whole else scanner.text.strip()
        reply = replace(completion, text=text, thinking=thinking)
        if scanner.is_cut or completion.stop == "max_tokens":
            return replace(reply, tool_calls=(), stop="max_tokens")
        if scanner.blocks:
            calls = to_tool_calls([_to_call(block) for block in scanner.blocks])
            return replace(reply, tool_calls=completion.tool_calls + calls, stop="tool_use")
        if completion.text.strip() and not text and not completion.tool_calls:
            raise RouteFailed(Cause.EMPTY, usage=completion.usage)
        return reply


NATIVE = Protocol(frozenset())


def _to_call(block: Block) -> Call:
    plain = from_json(block.body)
    if isinstance(plain, dict):
        if block.kind != DELEGATE:
            call = _named_call(plain)
        else:
            call = None if (json_text := _to_json(plain)) is None else (None, DELEGATE, json_text)
        if call is not None:
            return call
    name = block.kind
    if name != DELEGATE:
        beginning = clean(block.body[:NAME_WITHIN])
        tool, server = (pattern.search(beginning) for pattern in (TOOL_NAME, SERVER_NAME))
        name = _join(server[1] if server else None, tool[1])[:MAX_NAME] if tool else name
    # With its marks it is not valid JSON, so the toolbox rejects it with an explanation for the model.
    body = f"<{TAG}>{block.body}</{TAG}>" if block.kind == TAG else f"```{block.kind}\n{block.body}\n```"
    return None, name, body


def _named_call(plain: dict[str, Any]) -> Call | None:
    tool, server = _first(plain, TOOL_KEYS), _first(plain, SERVER_KEYS)
    keys = [key for key in ARGUMENT_KEYS if key in plain]
    if not isinstance(tool, str) or not tool.strip() or not isinstance(server, str | None):
        return None
    if not keys and plain.keys() - KNOWN_KEYS:
        # Unknown keys next to the name: treating them as arguments would be a guess.
        return None
    arguments = plain[keys[0]] if keys else None
    json_text = "{}" if arguments is None else arguments if isinstance(arguments, str) else _to_json(arguments)
    return None if json_text is None else (None, _join(server, tool), json_text)


def _first(plain: dict[str, Any], keys: Sequence[str]) -> Any:
    return next((plain[key] for key in keys if key in plain), None)


def _join(server: str | None, tool: str) -> str:
    server, tool = (server or "").strip(), tool.strip()
    if not server or tool.startswith((f"{server}__", f"{server}.")):
        return tool
    return f"{server}__{tool}"


def _to_json(value: Any) -> str | None:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return None
