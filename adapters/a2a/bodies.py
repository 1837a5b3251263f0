"""The body of a call: capped, checked for shape and cleaned before the SDK reads it."""

import asyncio
import json

from starlette.requests import Request
from starlette.types import Message

from adapters.web.api.bodies import LARGE_BYTES, capped, check_shape, max_body, require_type
from agent.app import App
from shared.text import clean_json


async def with_checked_body(request: Request, app: App) -> Request:
    """Return the request with its body read, bounded in size and depth, without lone surrogates."""
    require_type(request, "application/json")
    body = b"".join([chunk async for chunk in capped(request, max_body(app))])
    if len(body) > LARGE_BYTES:
        body = await asyncio.to_thread(_checked, body)
    else:
        body = _checked(body)

    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return unread.pop() if unread else await request.receive()

    return Request(request.scope, receive)


def _checked(body: bytes) -> bytes:
    check_shape(body)
    # A lone surrogate, of which a text cut in the middle of an emoji is made, can only come as an escape.
    if b"\\u" not in body and b"NaN" not in body and b"Infinity" not in body:
        return body
    try:
        return json.dumps(clean_json(json.loads(body))).encode()
    except ValueError:
        # No JSON: the SDK says so in the protocol's own words.
        return body
