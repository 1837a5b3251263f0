"""Modules that are imported with the first request for them."""

import asyncio
import sys
import threading

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from adapters.web.app import lazy

IMPORTING, END = threading.Event(), threading.Event()
SLOW = "tests.adapters.web.slow_module"


async def test_requests_that_come_during_the_import_wait_for_it() -> None:
    site = httpx.ASGITransport(Starlette(routes=[Route("/", lazy(SLOW, "answer"))]))
    async with httpx.AsyncClient(transport=site, base_url="http://parley") as client:
        first = asyncio.create_task(client.get("/"))
        await asyncio.to_thread(IMPORTING.wait, 60)
        assert SLOW in sys.modules
        second = asyncio.create_task(client.get("/"))
        await asyncio.to_thread(END.set)
        assert [(await request).text for request in (first, second)] == ["Here", "Here"]
