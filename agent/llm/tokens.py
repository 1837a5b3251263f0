"""Token counts of prompts: upper estimates, without a tokenizer or network access."""

import json
from collections.abc import Iterable
from typing import Any

from agent.llm.completions import ModelRequest, ToolCall
from shared.messages import EstimatedUsage
from shared.text import count_tokens

TOKENS_PER_MESSAGE = 4
# The highest token count of any provider for an image of the size that we send.
IMAGE_TOKENS = 1600


def count_prompt(messages: Iterable[dict[str, Any]]) -> int:
    """Return an upper estimate of the tokens of messages or tools in the OpenAI shape."""
    # The model sees only a tool's function, without its wrapper; the JSON is compact, as it is sent.
    payloads = [message.get("function", message) for message in messages]
    texts = (json.dumps(payload, ensure_ascii=False, separators=(",", ":")) for payload in payloads)
    contents = (payload.get("content") for payload in payloads)
    parts = (part for content in contents if isinstance(content, list) for part in content)
    images = sum(1 for part in parts if part["type"] == "image_url")
    return TOKENS_PER_MESSAGE * len(payloads) + sum(map(count_tokens, texts)) + IMAGE_TOKENS * images


def estimate(request: ModelRequest, text: str = "", tool_calls: tuple[ToolCall, ...] = ()) -> EstimatedUsage:
    """Return an upper estimate of the usage of an answer, for providers that do not report it."""
    output = text + "".join(call.name + call.arguments for call in tool_calls)
    return EstimatedUsage(count_prompt(request.messages) + count_prompt(request.tools), 0, count_tokens(output))
