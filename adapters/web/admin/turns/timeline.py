"""What happened in a turn, wave by wave, out of the story that `parley_explain_turn` tells."""

import json
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import Struct, field

from agent.llm.attempts import ANSWERED

Row = Mapping[str, Any]
# Longer texts are cut: a page is no place for a book.
SHOWN_CHARS = 20_000


class Text(Struct, frozen=True):
    """A text of the journal; `length` is that of the whole of it."""

    shown: str
    length: int

    @property
    def is_cut(self) -> bool:
        """Return whether there is more than is shown."""
        return self.length > len(self.shown)


class ToolCall(Struct):
    """One call of a tool; arguments and result are None where they may be somebody's own."""

    tool: str
    arguments: Text | None
    is_private: bool
    seconds: float | None = None
    outcome: str | None = None
    result: Text | None = None


class Wave(Struct):
    """One answer of a model: the routes that were tried for it, what it cost, its text, and the calls that it made.

    `text` is None where it is not shown.
    """

    number: int
    step: Row
    text: Text | None
    routes: Sequence[Row]
    payments: Sequence[Row]
    calls: list[ToolCall] = field(default_factory=list)

    @property
    def has_fallback(self) -> bool:
        """Return whether a route failed before one answered."""
        return any(route["outcome"] != ANSWERED for route in self.routes)

    @property
    def seconds(self) -> float | None:
        """Return how long its calls took, which run side by side."""
        return max((call.seconds for call in self.calls if call.seconds is not None), default=None)


class Timeline:
    """The messages and waves of a turn, and the attempts after the last wave, which nobody answered.

    `open_modules` are those whose tools show nothing that is one person's own; without `has_texts` no words are shown.
    """

    def __init__(self, story: Row, open_modules: AbstractSet[str], *, has_texts: bool) -> None:
        self._open_modules, self._has_texts = open_modules, has_texts
        self._has_plans = story["turn"]["mode"] == "planner"
        self._routes = list(_by_call(story["routes"] or ()))
        self._payments = list(story["model_calls"] or ())
        self.messages: list[Text] = []
        self.waves: list[Wave] = []
        for step in story["steps"] or ():
            self._add(step)
        self.failed_routes = [route for group in self._routes for route in group]
        # Summaries, embeddings, and what was paid for an answer that did not come.
        self.other_payments = self._payments
        for wave, times in zip([wave for wave in self.waves if wave.calls], story["waves"] or (), strict=False):
            for call, time in zip(wave.calls, times["calls"], strict=False):
                call.seconds, call.outcome = time["seconds"], time["outcome"]

    def _add(self, step: Row) -> None:
        match step["role"]:
            case "user" if self._has_texts:
                self.messages.append(to_text(step["content"]))
            case "assistant":
                has_answer = bool(self._routes) and self._routes[0][-1]["outcome"] == ANSWERED
                routes = self._routes.pop(0) if has_answer else []
                payments = [row for row in self._payments if row["at"] <= step["at"]]
                del self._payments[: len(payments)]
                content = find_response(step["content"]) if self._has_plans else step["content"]
                text = to_text(content) if self._has_texts else None
                self.waves.append(Wave(len(self.waves) + 1, step=step, text=text, routes=routes, payments=payments))
            case "tool_call" if self.waves:
                is_private = step["tool"].partition(".")[0] not in self._open_modules
                arguments = None if is_private else to_text(step["content"])
                self.waves[-1].calls.append(ToolCall(step["tool"], arguments, is_private))
            case "tool_result":
                calls = (call for wave in reversed(self.waves) for call in wave.calls)
                call = next((call for call in calls if call.tool == step["tool"] and call.outcome is None), None)
                if call is not None:
                    call.outcome = step["outcome"]
                    call.result = None if call.is_private else to_text(step["content"])


def to_text(content: str) -> Text:
    """Return a text as far as it is shown."""
    return Text(content[:SHOWN_CHARS], len(content))


def find_response(content: str) -> str:
    """Return what an answer in planner mode says to the person; a plan also holds the arguments of its calls."""
    try:
        plan = json.loads(content)
    except ValueError:
        return content
    return str(plan.get("response", "")) if isinstance(plan, dict) and {"status", "broken"} & plan.keys() else content


def _by_call(routes: Sequence[Row]) -> Iterator[list[Row]]:
    # Each model call tries routes until one answers.
    group: list[Row] = []
    for route in routes:
        group.append(route)
        if route["outcome"] == ANSWERED:
            yield group
            group = []
    if group:
        yield group
