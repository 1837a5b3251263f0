"""The bench's model: the smallest server that speaks the OpenAI wire format; what is measured is never its time.

The last user message says what to play: `[tools=3 delay=500]` calls three tools and answers after 500 ms.
"""

import asyncio
import json
import re
import sys
from contextlib import suppress
from typing import Any

import uvloop

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
MARK = re.compile(r"\[tools=(\d+) delay=(\d+)\]")
TOOL = "knowledge__list_memories"
SAID = "It is a pleasure to hear from you; here is an answer of an ordinary length for a chat, in two sentences. " * 2


def mark(tools: int = 0, delay: int = 0) -> str:
    """Return the message that makes the model call so many tools and answer after so many milliseconds."""
    return f"What is it that I like, and what do you make of it? [tools={tools} delay={delay}]"


def played(body: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """Return the message that answers this request, and after how many seconds it does."""
    last = next(each["content"] for each in reversed(body["messages"]) if each["role"] == "user")
    found = MARK.search(str(last))
    tools, delay = (int(found[1]), int(found[2])) if found else (0, 0)
    if not tools or body["messages"][-1]["role"] == "tool":
        return {"role": "assistant", "content": SAID}, delay / 1000
    calls = [
        {"id": f"call_{index}", "type": "function", "function": {"name": TOOL, "arguments": f'{{"skip": {index}}}'}}
        for index in range(tools)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}, delay / 1000


def rendered(message: dict[str, Any], length: int) -> bytes:
    """Return the whole HTTP response that carries this message."""
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


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one kept-alive connection, one request after the other."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            message, delay = played(json.loads(body))
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
