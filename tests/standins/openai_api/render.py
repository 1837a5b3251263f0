"""Answers as bytes: one JSON body, or the chunks of a stream; and the vectors of texts."""

import base64
import json
import re
import struct
import time
from collections.abc import Iterator
from math import sqrt
from typing import Any
from zlib import crc32

from tests.standins.openai_api.script import Answer, Body, arguments_text

WORD = re.compile(r"\w+")
DIMENSIONS = 1536
# A PNG with one pixel, as Base64.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def finish_reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.tool_calls else "stop")


def usage(answer: Answer, prompt_bytes: int) -> dict[str, Any]:
    """Return a plausible usage: four bytes are a token."""
    length = len(answer.text) + sum(len(call[0]) + len(arguments_text(call)) for call in answer.tool_calls)
    counted: dict[str, Any] = {
        "prompt_tokens": max(1, prompt_bytes // 4),
        "completion_tokens": max(1, length // 4),
        "prompt_tokens_details": {"cached_tokens": 0},
        **(answer.usage or {}),
    }
    return {**counted, "total_tokens": counted["prompt_tokens"] + counted["completion_tokens"]}


def calls(answer: Answer, call_prefix: str) -> list[dict[str, Any]]:
    """Return the tool calls in the API's shape, each with its id."""
    return [
        {
            "id": call[2] if len(call) == 3 else f"{call_prefix}_{index}",
            "type": "function",
            "function": {"name": call[0], "arguments": arguments_text(call)},
        }
        for index, call in enumerate(answer.tool_calls)
    ]


def whole(answer: Answer, body: Body, prompt_bytes: int, call_prefix: str) -> bytes:
    """Return the body of an answer that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.tool_calls:
        message["tool_calls"] = calls(answer, call_prefix)
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(answer)}
    reply = {**_head(body, "chat.completion", call_prefix), "choices": [choice]}
    if not answer.no_usage:
        reply["usage"] = usage(answer, prompt_bytes)
    return json.dumps(reply).encode()


def chunks(answer: Answer, body: Body, prompt_bytes: int, call_prefix: str) -> list[bytes]:
    """Return the server-sent events of a streamed answer, the end mark included."""
    wants_usage = body.get("stream_options", {}).get("include_usage", False) and not answer.no_usage
    head = _head(body, "chat.completion.chunk", call_prefix)
    if wants_usage:
        head["usage"] = None
    events = [
        {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}
        for delta in _deltas(answer, call_prefix)
    ]
    events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason(answer)}]})
    if wants_usage:
        events.append({**head, "choices": [], "usage": usage(answer, prompt_bytes)})
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events] + [b"data: [DONE]\n\n"]


def _head(body: Body, kind: str, call_prefix: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{call_prefix}", "object": kind, "created": int(time.time()), "model": body["model"]}


def _deltas(answer: Answer, call_prefix: str) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "", "refusal": None}
    for part in _pieces(answer.reasoning, answer.chunk_chars):
        yield {"reasoning_content": part}
    for part in _pieces(answer.text, answer.chunk_chars):
        yield {"content": part}
    for index, call in enumerate(calls(answer, call_prefix)):
        function = call["function"]
        yield {"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]}
        for part in _pieces(function["arguments"], answer.chunk_chars):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return a unit vector; texts that share words, or parts of words, have similar vectors."""
    weights = [0.0] * dimensions
    for word in WORD.findall(text.lower()):
        _add(weights, word, 1.0)
        for start in range(len(word) - 2):
            _add(weights, f"#{word[start : start + 3]}", 0.3)
    length = sqrt(sum(weight * weight for weight in weights))
    if not length:
        return [1.0] + [0.0] * (dimensions - 1)
    return [weight / length for weight in weights]


def embedding(text: str, dimensions: int, encoding: str) -> list[float] | str:
    """Return the text's vector as the request wants it: numbers, or base64 of little-endian floats."""
    numbers = vector(text, dimensions)
    if encoding == "base64":
        return base64.b64encode(struct.pack(f"<{dimensions}f", *numbers)).decode()
    return numbers


def _add(weights: list[float], feature: str, weight: float) -> None:
    digest = crc32(feature.encode())
    weights[digest % len(weights)] += weight if digest & 0x8000_0000 else -weight
