"""Search among tools that do not fit into a prompt: `find_tool` describes them, `use_tool` calls one.

A call of `use_tool` becomes a call of the tool that it names when the model's answer is read; so permission, taint,
journal and events see that tool.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from agent.llm.completions import count_prompt
from agent.tools.offer import Offer, Scope
from agent.tools.providers import ToolProvider
from shared.errors import ToolError
from shared.messages import Permission
from shared.text import cut
from shared.tools import Tool, ToolContext

MODULE = "tools"
FIND, USE = f"{MODULE}.find_tool", f"{MODULE}.use_tool"
# From so many tools or tokens on, an offer holds only the most used ones: every request pays for their descriptions.
MAX_OFFERED_TOOLS = 20
MAX_OFFERED_TOKENS = 2_000
# The two tools of the search itself.
SEARCH_TOOLS, SEARCH_TOKENS = 2, 250
MAX_FOUND = 5
# The part of a result that the descriptions may take.
RESULT_SHARE = 0.8
WORD = re.compile(r"[^\W_]+")


class ToolSearch(ToolProvider):
    """Runs `find_tool` and `use_tool`, which are part of an offer only if tools are left out of it."""

    is_personal = True

    def __init__(self, offered_to: Callable[[Scope], Offer]) -> None:
        self._offered_to = offered_to
        # With nothing to search in.
        self.tools = {tool.name: tool for tool in build_search(())}

    def list(self, scope: Scope) -> Sequence[Tool]:
        """Return the two tools if the offer of this scope leaves tools out."""
        return [tool for tool in self._offered_to(scope).tools if tool.module == MODULE]


def fit(
    tools: Sequence[Tool], others: Sequence[Tool], use: Mapping[str, int], first: Collection[str]
) -> tuple[list[Tool], list[Tool]]:
    """Return the tools to offer and those to leave out: of `tools` the most used ones stay, `others` in any case.

    `use` has the calls by name. Of tools that nobody has called yet those of the modules `first` come before others,
    and short ones before long ones. So an offer changes only with what it is built of.
    """
    tokens = count_prompt(tool.schema for tool in (*tools, *others))
    if len(tools) + len(others) < MAX_OFFERED_TOOLS and tokens < MAX_OFFERED_TOKENS:
        return [*tools, *others], []
    sizes = {tool.name: count_prompt([tool.schema]) for tool in tools}
    ranked = sorted(
        tools, key=lambda tool: (-use.get(tool.name, 0), tool.module not in first, sizes[tool.name], tool.name)
    )
    selection, left_out = [*others], list[Tool]()
    tokens = SEARCH_TOKENS + count_prompt(tool.schema for tool in others)
    for tool in ranked:
        if len(selection) + SEARCH_TOOLS < MAX_OFFERED_TOOLS and tokens + sizes[tool.name] < MAX_OFFERED_TOKENS:
            selection, tokens = [*selection, tool], tokens + sizes[tool.name]
        else:
            left_out.append(tool)
    return selection, left_out


def build_search(left_out: Sequence[Tool]) -> tuple[Tool, Tool]:
    """Return `find_tool` and `use_tool` for these tools."""
    modules = sorted({tool.module for tool in left_out})

    async def find_tool(context: ToolContext, query: str) -> dict[str, Any]:
        words = _words(query)
        scored: list[tuple[int, Tool]] = []
        for tool in left_out:
            name, description = _words(tool.name), _words(tool.description)
            nearness = [any(part.startswith(word) or word.startswith(part) for part in name) for word in words]
            scored.append((3 * sum(nearness) + len(words & description), tool))
        best = [tool for score, tool in sorted(scored, key=lambda pair: (-pair[0], pair[1].name)) if score]
        remainder = int(context.app_settings.tool_result_max_chars * RESULT_SHARE)
        functions: list[Mapping[str, Any]] = []
        for tool in best[:MAX_FOUND]:
            function = tool.schema["function"]
            remainder -= len(str(function))
            if remainder < 0 and functions:
                break
            functions.append(function)
        return {"tools": functions} if functions else {"tools": [], "servers": modules}

    async def use_tool(_context: ToolContext, name: str, arguments: dict[str, Any] | None = None) -> None:
        raise ToolError(f"There is no tool {name[:64]!r} here. Look for it with find_tool.")

    find_tool.__doc__ = f"Find tools by words. More tools than are listed here have: {cut(', '.join(modules), 300)}."
    use_tool.__doc__ = "Use a tool that find_tool has found, with its name and arguments as they are described there."
    return (
        Tool(
            find_tool,
            Permission.GUEST,
            read_only=True,
            module=MODULE,
            words=("Looking for a tool", "Looked for a tool"),
        ),
        Tool(use_tool, Permission.GUEST, read_only=True, module=MODULE),
    )


def unwrap(offer: Offer, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments of a call; a call of `use_tool` is a call of the tool that it names."""
    tool = offer.find(name)
    if tool is None or tool.name != USE:
        return name, arguments
    target, tool_arguments = offer.find(str(arguments.get("name"))), arguments.get("arguments", {})
    if target is None or target.module == MODULE or not isinstance(tool_arguments, dict):
        return name, arguments
    return target.name, tool_arguments


def _words(text: str) -> set[str]:
    return {word.lower() for word in WORD.findall(text)}
