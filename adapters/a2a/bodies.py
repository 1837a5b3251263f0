"""Request bodies of A2A: limited in size, checked for their nesting and cleaned before the SDK parses them."""

import asyncio
import json
from typing import Any

from starlette.requests import Request
from starlette.types import Message

from adapters.web.api.bodies import LARGE_BYTES, capped, check_shape, max_body, require_type
from agent.app import App
from shared.text import clean_json


class JsonRequest(Request):
    """A request whose body is JSON in UTF-8; any other raises `JSONDecodeError`, which the SDK answers."""

    async def json(self) -> Any:
        """Return the body's value."""
        try:
            return json.loads((await self.body()).decode())
        except json.JSONDecodeError:
            raise
        except ValueError as error:
            # Bytes that are no UTF-8, or a number with thousands of digits.
            raise json.JSONDecodeError(type(error).__name__, "", 0) from error


async def with_checked_body(request: Request, app: App) -> Request:
    """Return the request with its body read; raises `Fault` when it is too large, too deep or of another content type.

    Lone surrogates, NaN and infinities are replaced.
    """
    require_type(request, "application/json")
    body = b"".join([chunk async for chunk in capped(request, max_body(app))])
    if len(body) > LARGE_BYTES:
        body = await asyncio.to_thread(_checked, body)
    else:
        body = _checked(body)

    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return unread.pop() if unread else await request.receive()

    return JsonRequest(request.scope, receive)


def _checked(body: bytes) -> bytes:
    check_shape(body)
    # A lone surrogate (half an emoji) can only be written as an escape sequence.
    if b"\\u" not in body and b"NaN" not in body and b"Infinity" not in body:
        return body
    try:
        return json.dumps(clean_json(json.loads(body.decode()))).encode()
    except ValueError:
        # Not JSON: the SDK answers with the error of the protocol.
        return body
