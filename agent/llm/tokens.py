"""How many tokens a text takes: an upper estimate that needs no tokenizer and no network."""

import json
from collections.abc import Iterable
from typing import Any

# English takes four bytes a token, most other scripts three; providers' own counts replace the estimate afterwards.
BYTES_PER_TOKEN = 3
TOKENS_PER_MESSAGE = 4
# What the most expensive provider counts for an image of the size that is sent.
IMAGE_TOKENS = 1600


def count_tokens(text: str) -> int:
    """Return an upper estimate of the tokens in the text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def count_prompt(messages: Iterable[dict[str, Any]]) -> int:
    """Return an upper estimate of the tokens of messages or tools in the OpenAI shape."""
    # The model is shown a tool's function without its wrapping; compact, as it goes over the wire.
    shown = (each.get("function", each) for each in messages)
    return sum(
        TOKENS_PER_MESSAGE
        + count_tokens(json.dumps(each, ensure_ascii=False, separators=(",", ":")))
        + IMAGE_TOKENS * _count_images(each.get("content"))
        for each in shown
    )


def _count_images(content: Any) -> int:
    return sum(part["type"] == "image_url" for part in content) if isinstance(content, list) else 0
