"""What tests of signing in share: the page of a running Parley, and links that were sent in a chat."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
from msgspec.structs import replace
from playwright.async_api import Page

from tests.adapters.web.admin.conftest import examine
from tests.adapters.web.browser import take_picture
from tests.adapters.web.conftest import BY_HAND, Site, open_site
from tests.support.parley import Parley

# Each scheme and each width once: colours don't change with the width.
VIEWS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1280, "light"), (360, "dark"))
LINK = re.compile(r"https?://[^\s|>]+/\?(key=[\w.~-]+)")


@asynccontextmanager
async def open_page(parley: Parley) -> AsyncIterator[Site]:
    """Serve the page of a Parley whose other adapter is a chat platform."""
    settings = parley.app.settings.model_copy(update={"port": 0})
    async with open_site(parley, replace(parley.app, settings=settings)) as site:
        yield site


def find_link(site: Site, reply: str) -> str:
    """Return the link in a reply, with the port on which the page is."""
    match = LINK.search(reply)
    assert match is not None, reply
    return f"{site.url}/?{match[1]}"


async def open_by_hand(link: str, cookies: Any = None) -> httpx.Response:
    """Open a link as a browser does in which it was typed."""
    async with httpx.AsyncClient(headers=BY_HAND, cookies=cookies) as client:
        return await client.get(link)


async def look(page: Page, name: str) -> list[str]:
    """Look at a page in a wide window, and dark on a phone; return what is wrong."""
    problems = []
    for width, scheme in VIEWS:
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme=scheme)
        view = f"{name}-{width}-{scheme}"
        await take_picture(page, view, full_page=True)
        problems += [f"{view}: {problem}" for problem in await examine(page, width)]
    return problems
