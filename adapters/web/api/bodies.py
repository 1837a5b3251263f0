"""Request bodies: read with a size limit, checked for their nesting, cleaned, parsed and validated."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from adapters.web.faults import Fault, from_validation
from agent.app import App
from shared.text import MAX_DEPTH, clean_json

MEGABYTE = 1024 * 1024
MAX_JSON_BYTES = MEGABYTE
# Larger bodies are checked and parsed in a thread.
LARGE_BYTES = 256_000
# How many bytes of an oversize body are read and dropped before the response: a client whose connection is closed while
# it sends never sees the response.
DRAINED = 4
STRING = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
FILE_CONTENT = re.compile(rb'"(?:data|url|file_data|raw|bytes)"\s*+:\s*+"[^"]*+"?')

Model = TypeVar("Model", bound=BaseModel)


async def read_json(request: Request, model: type[Model], max_bytes: int) -> Model:
    """Return the body as this model; raises a `Fault` that names what is wrong."""
    require_type(request, "application/json")
    body = b"".join([chunk async for chunk in capped(request, max_bytes)])
    if len(body) > LARGE_BYTES:
        return await asyncio.to_thread(parse, body, model)
    return parse(body, model)


def parse(body: bytes, model: type[Model]) -> Model:
    """Return the bytes as this model; lone surrogates are replaced."""
    check_shape(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
            raise from_validation(error) from None
        return _parse_leniently(body, model, error)


def _parse_leniently(body: bytes, model: type[Model], fault: ValidationError) -> Model:
    # The strict parser refuses a lone surrogate (half an emoji).
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise from_validation(fault) from None
    try:
        # Serialised again, because the models accept a date only as JSON text.
        return model.model_validate_json(json.dumps(clean_json(value)))
    except ValidationError as error:
        raise from_validation(error) from None


def check_shape(body: bytes) -> None:
    """Refuse JSON that is nested too deep, or is large even without the content of files."""
    if len(body) > MAX_JSON_BYTES:
        files = sum(found.end() - found.start() for found in FILE_CONTENT.finditer(body))
        if len(body) - files > MAX_JSON_BYTES:
            raise too_large(MAX_JSON_BYTES, "JSON without the content of files")
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for byte in STRING.sub(b"", body):
        if byte in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Fault(400, "invalid_json", f"The JSON is nested deeper than {MAX_DEPTH} levels.")
        elif byte in b"]}":
            depth -= 1


async def capped(request: Request, max_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the body as it arrives; raises a 413 as soon as it exceeds the limit."""
    received = 0
    try:
        declared = int(request.headers.get("content-length", "0"))
    except ValueError:
        raise Fault(400, "invalid_request", "Content-Length is not a number.") from None
    async for chunk in request.stream():
        received += len(chunk)
        if max(received, declared) <= max_bytes:
            yield chunk
        elif received > max_bytes * DRAINED:
            break
    if max(received, declared) > max_bytes:
        raise too_large(max_bytes, "the body")


def too_large(max_bytes: int, what: str) -> Fault:
    """Return the 413 with the limit."""
    limit = f"{max_bytes / MEGABYTE:g} MB"
    return Fault(413, "too_large", f"Too large: {what} may have {limit}.", headers={"Connection": "close"})


def max_body(app: App) -> int:
    """Return the limit in bytes for a body with files."""
    return app.settings.max_body_mb * MEGABYTE


def require_type(request: Request, wanted: str) -> None:
    """Refuse a body with another content type, or a compressed one."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != wanted:
        raise Fault(415, "unsupported_media_type", f"Send the body with Content-Type: {wanted}.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Fault(415, "unsupported_media_type", "Send the body uncompressed.")
