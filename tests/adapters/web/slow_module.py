"""A module whose import lasts until a test ends it."""

from typing import Any

from starlette.responses import PlainTextResponse, Response

from tests.adapters.web.test_lazy import END, IMPORTING

IMPORTING.set()
assert END.wait(60)


async def answer(_request: Any) -> Response:
    """Answer."""
    return PlainTextResponse("Here")
