"""The benchmark's model: a minimal server of the OpenAI wire format, whose own time is negligible.

The last user message selects the behaviour: `[tools=3 delay=500]` calls three tools and answers after 500 ms; `tool=…`
names the tool. A streamed answer has 100 chunks within that time; with `[stamps]` 40 a second, each of which is its
number and the time at which it is sent, by the monotonic clock of this machine.
"""

import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import uvloop

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
MARK = re.compile(r"\[tools=(\d+) delay=(\d+)(?: tool=(\w+))?\]")
STAMPS = "[stamps]"
STAMPS_A_SECOND = 40
STAMPED = b'data: {"choices":[{"index":0,"delta":{"content":"%d:%.4f "}}]}\n\n'
USAGE = b'"usage":{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050}'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],%b}\n\ndata: [DONE]\n\n' % USAGE
TOOL = "knowledge__list_memories"
CHUNKS = 100
SAID = "It is a pleasure to hear from you; here is an answer of an ordinary length for a chat, in two sentences. " * 2


def mark(tools: int = 0, delay: int = 0, tool: str = "") -> str:
    """Return a message that makes the model call this many tools and answer after this many milliseconds."""
    suffix = f" tool={tool}" if tool else ""
    return f"What is it that I like, and what do you make of it? [tools={tools} delay={delay}{suffix}]"


def next_answer(body: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """Return the answer to this request and its delay in seconds."""
    last = next(message["content"] for message in reversed(body["messages"]) if message["role"] == "user")
    match = MARK.search(str(last))
    tools, delay, name = (int(match[1]), int(match[2]), match[3] or TOOL) if match else (0, 0, TOOL)
    if not tools or body["messages"][-1]["role"] == "tool":
        return {"role": "assistant", "content": SAID}, delay / 1000
    calls = [
        {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": f'{{"skip": {index}}}'}}
        for index in range(tools)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}, delay / 1000


def rendered(message: dict[str, Any], length: int) -> bytes:
    """Return the whole HTTP response with this message."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    whole = {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1,
        "model": "bench",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": length // 4, "completion_tokens": 50, "total_tokens": length // 4 + 50},
    }
    body = json.dumps(whole).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def chunks(message: dict[str, Any]) -> list[bytes]:
    """Return an answer as the frames of a stream, each an HTTP chunk: a call or a text in 100 pieces."""
    text = message["content"] or ""
    places = [len(text) * number // CHUNKS for number in range(CHUNKS + 1)]
    calls = [{**call, "index": index} for index, call in enumerate(message.get("tool_calls") or ())]
    deltas = [{"content": text[start:end]} for start, end in pairwise(places)] if text else [{"tool_calls": calls}]
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    frames = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
    frames.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage})
    texts = [f"data: {json.dumps(frame)}\n\n" for frame in frames]
    texts[-1] += "data: [DONE]\n\n"
    return [to_chunk(text.encode()) for text in texts]


def stamped(count: int) -> Iterator[bytes]:
    """Yield the frames of a stream that tell when they are sent, and the last one."""
    for number in range(count):
        yield to_chunk(STAMPED % (number, time.monotonic()))
    yield to_chunk(LAST)


def to_chunk(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)


async def stream(writer: asyncio.StreamWriter, frames: Iterator[bytes], count: int, delay: float) -> None:
    """Send an answer in pieces; the last one after `delay`, however long the others took."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    start = asyncio.get_running_loop().time()
    for number in range(1, count + 1):
        await asyncio.sleep(start + delay * number / count - asyncio.get_running_loop().time())
        writer.write(next(frames))
    writer.write(b"0\r\n\r\n")


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve the requests of one keep-alive connection."""
    # RuntimeError: uvloop's of a connection that the other side has closed.
    with suppress(asyncio.IncompleteReadError, ConnectionError, RuntimeError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            request = json.loads(body)
            message, delay = next_answer(request)
            if request.get("stream"):
                count = round(delay * STAMPS_A_SECOND) if STAMPS.encode() in body else 0
                frames = stamped(count) if count else iter(whole := chunks(message))
                await stream(writer, frames, count=count + 1 if count else len(whole), delay=delay)
                continue
            if delay:
                await asyncio.sleep(delay)
            writer.write(rendered(message, len(body)))
    writer.close()


async def main() -> None:
    """Serve on a free port, which is printed, until the process is ended."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
