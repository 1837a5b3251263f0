"""The admin pages as their admins see them: over HTTP, and in a real browser."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Literal

import httpx
from playwright.async_api import Browser, Page

from tests.adapters.web.conftest import Site
from tests.adapters.web.test_page import Window, browser_address, chromium, open_window
from tests.support.source_tree import ROOT

__all__ = ["browser_address", "chromium"]

ARTIFACTS = ROOT / "tests/artifacts"
AXE = ROOT / "tests/adapters/web/vendor/axe.min.js"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTHS = (1280, 360)
TOKEN = re.compile(r'name="token" value="([^"]+)"')
# Chromium notes each answer with such a status in the console.
NOTED = re.compile(r"status of (422|404)")


async def make_person(site: Site, account: str, permission: str = "guest") -> int:
    """Make a person who has an account of the chat page; return the user's id."""
    await site.parley.sql("SELECT parley_make_user('web', :account, :name)", account=account, name=account.title())
    user_id = int(await site.parley.value("SELECT admin.find_user('web', :account)", account=account))
    if permission != "guest":
        await site.parley.sql("SELECT parley_set_permission(:id, :permission)", id=user_id, permission=permission)
    return user_id


async def post(client: httpx.AsyncClient, path: str, *, page: str | None = None, **fields: str) -> httpx.Response:
    """Send a form of a page with the token that stands in it; `page` is where the form is, by default the same."""
    token = TOKEN.search((await client.get(page or path)).text)
    assert token is not None, "the page has no form"
    return await client.post(path, data={"token": unescape(token[1]), **fields})


@asynccontextmanager
async def admin_window(chromium: Browser, site: Site, who: str, path: str = "/admin") -> AsyncIterator[Window]:
    """Open an admin page in a browser; its console may complain of nothing but refused forms."""
    async with open_window(chromium, site.link(who)) as window:
        await window.page.goto(f"{site.url}{path}")
        yield window
        window.complaints = [complaint for complaint in window.complaints if not NOTED.search(complaint)]


async def look(page: Page, name: str) -> list[str]:
    """Take pictures of a page, light and dark, at both widths; return what is wrong with them."""
    problems = []
    ARTIFACTS.mkdir(exist_ok=True)
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            picture = ARTIFACTS / f"admin-{name}-{width}-{scheme}.png"
            await page.screenshot(path=picture, full_page=True)
            problems += [f"{picture.name}: {problem}" for problem in await examine(page, width)]
    return problems


async def examine(page: Page, width: int) -> list[str]:
    """Return the violations that axe finds, and whether the page is wider than the screen."""
    if not await page.evaluate("Boolean(window.axe)"):
        # Evaluated, because the page's policy lets no script tag in.
        await page.evaluate(AXE.read_text("utf-8"))
    found = await page.evaluate("axe.run().then(({violations}) => violations.map(v => `${v.id}: ${v.nodes[0].html}`))")
    if await page.evaluate("document.documentElement.scrollWidth") > width:
        found.append("it is wider than the screen")
    return [str(violation) for violation in found]
