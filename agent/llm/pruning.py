"""How a request that is longer than the model's context window is shortened.

The oldest turns of the history are dropped first, then the oldest tool calls of this turn with their results, which a
short note replaces. The system prompt with the summary, this message and the last exchange are always kept. Parts are
dropped in blocks, counted from the oldest: later calls of the turn drop the same parts, and perhaps more, so that the
beginning of the prompt stays in the provider's cache.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.llm.completions import ModelRequest, RouteFailed, count_prompt
from agent.prompts import prompts
from shared.text import cut

# One block is a third of the space for droppable parts, so the next drop comes only after as much was added.
BLOCK_SHARE = 3
NOTE_TOKENS = 150
NAMES_CHARS = 300

Message = dict[str, Any]
Part = Sequence[Message]


def prune(request: ModelRequest, window: int) -> ModelRequest:
    """Return the request, shortened if necessary so that prompt and answer fit into `window` tokens."""
    # An answer that takes more than half of the window leaves too little room for the prompt.
    request = replace(request, max_tokens=max(1, min(request.max_tokens, window // 2)))
    surplus = request.max_tokens + _count(request) - window
    if surplus <= 0:
        return request
    parts = _Parts.of(request.messages)
    # The same for all calls of a turn, so that the block size is the same too.
    always = request.max_tokens + sum(map(count_prompt, (request.tools, parts.system, parts.this_message)))
    sizes = [count_prompt(part) for part in (*parts.history, *parts.waves[:-1])]
    # Only whole blocks are dropped, so that successive calls drop the same number until another block is needed.
    block = (window - always) // BLOCK_SHARE
    count = tokens = since = 0
    for size in sizes:
        count, tokens, since = count + 1, tokens + size, since + size
        if since >= block:
            if tokens >= surplus + NOTE_TOKENS:
                break
            since = 0
    return replace(request, messages=parts.without(count))


def estimate_window(request: ModelRequest, failure: RouteFailed) -> int:
    """Return an estimate of the window of a model that has refused this request as too long."""
    tokens = request.max_tokens + _count(request)
    share = 0.5
    if failure.window and failure.counted and failure.counted > failure.window:
        # The provider's count differs from ours by a roughly constant factor, and may exclude the answer.
        share = 0.85 * failure.window / failure.counted
    return int(tokens * share)


class _Parts(Struct, frozen=True):
    # The parts of a prompt: `history` has one part per turn, `waves` one per answer of this turn and its results.
    system: Part
    history: tuple[Part, ...]
    this_message: Part
    waves: tuple[Part, ...]

    @classmethod
    def of(cls, messages: Part) -> "_Parts":
        begin = next((place for place, message in enumerate(messages) if message["role"] != "system"), len(messages))
        # A user message right after a tool result was added by us, so it belongs to that exchange.
        spoken = [
            place
            for place in range(begin, len(messages))
            if messages[place]["role"] == "user" and (place == 0 or messages[place - 1]["role"] != "tool")
        ]
        this = spoken[-1] if spoken else begin
        turns = [begin, *(place for place in spoken if begin < place < this), this]
        answers = [place for place in range(this + 1, len(messages)) if messages[place]["role"] == "assistant"]
        ends = [*answers, len(messages)]
        return cls(
            system=messages[:begin],
            history=tuple(messages[start:end] for start, end in pairwise(turns)),
            this_message=messages[this : ends[0]],
            waves=tuple(messages[start:end] for start, end in pairwise(ends)),
        )

    def without(self, count: int) -> tuple[Message, ...]:
        waves = max(0, count - len(self.history))
        calls = [call for part in self.waves[:waves] for message in part for call in message.get("tool_calls") or ()]
        note: Part = ()
        if calls:
            counted = Counter(str(call["function"]["name"]) for call in calls)
            names = ", ".join(f"{name} ({number})" if number > 1 else name for name, number in counted.items())
            text = prompts().turn.left_out.format(calls=cut(names, NAMES_CHARS))
            note = ({"role": "user", "content": text},)
        parts = [*self.history[count:], self.this_message, note, *self.waves[waves:]]
        return (*self.system, *(message for part in parts for message in part))


def _count(request: ModelRequest) -> int:
    return count_prompt(request.tools) + count_prompt(request.messages)
