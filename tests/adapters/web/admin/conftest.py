"""The admin pages as their admins see them: over HTTP, and in a real browser."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any, Literal

import httpx
from playwright.async_api import Browser, Page

from tests.adapters.web.browser import OF_COLOURS, Window, list_violations, open_window, take_picture
from tests.adapters.web.conftest import Site

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTHS = (1280, 360)
TOKEN = re.compile(r'name="token" value="([^"]+)"')
# Chromium notes each answer with such a status in the console.
WAITING = (
    "SELECT count(*) >= :count FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
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
async def admin_window(
    chromium: Browser, site: Site, who: str, path: str = "/admin", **options: Any
) -> AsyncIterator[Window]:
    """Open an admin page in a browser; its console may complain of nothing but refused forms."""
    async with open_window(chromium, site.link(who), **options) as window:
        await window.page.goto(f"{site.url}{path}")
        yield window
        window.complaints = [complaint for complaint in window.complaints if not NOTED.search(complaint)]


async def look(page: Page, name: str) -> list[str]:
    """Look at a page, light and dark, at both widths; return what is wrong."""
    problems = []
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            view = f"admin-{name}-{width}-{scheme}"
            await take_picture(page, view, full_page=True)
            # What is there, its names and its order are the same in both schemes.
            rules = () if scheme == SCHEMES[0] else OF_COLOURS
            problems += [f"{view}: {problem}" for problem in await examine(page, width, *rules)]
    return problems


async def examine(page: Page, width: int, *rules: str) -> list[str]:
    """Return the violations that axe finds, all or those of some rules, and whether it is wider than the screen."""
    violations = await list_violations(page, *rules)
    if await page.evaluate("document.documentElement.scrollWidth") > width:
        violations.append("it is wider than the screen")
    return violations


HOSTILE = '<img src=x onerror="document.title=1">'
# A server with a channel, people who wrote there, turns and what they cost; names are what strangers choose.
SCENE = """
WITH person AS (
    SELECT admin.find_user('web', 'bob') AS id
), server AS (
    INSERT INTO servers (platform, platform_server_id, name, token_budget_monthly)
    VALUES ('discord', '4711', :hostile || ' Night Owls ' || repeat('W', 200), 200000)
), persona AS (
    INSERT INTO personas (name, system_prompt) VALUES ('Sage', 'You are patient. ' || :hostile)
), place AS (
    INSERT INTO conversations (platform, platform_server_id, platform_channel_id)
    VALUES ('discord', '4711', '4712') RETURNING id
), answered AS (
    INSERT INTO turns (conversation_id, user_id, status, finished, started_at, finished_at, model, error, cause)
    SELECT place.id, person.id, CASE n WHEN 3 THEN 'failed' ELSE 'answered' END, n <> 3, now() - n * interval '1 hour',
           now() - n * interval '1 hour' + interval '2 seconds', 'openai/stub', CASE n WHEN 3 THEN 'provider_down' END,
           CASE n WHEN 3 THEN 'The provider answers with 502. ' || :hostile END
    FROM place, person, generate_series(1, 4) AS n RETURNING id, user_id, conversation_id, started_at
)
INSERT INTO token_logs
    (user_id, conversation_id, turn_id, model, input_tokens, output_tokens, cost_estimate, created_at)
SELECT user_id, conversation_id, id, 'openai/stub', 1200, 300, 0.0123, started_at FROM answered
"""


async def write_scene(site: Site) -> int:
    """Make Ann, an owner, and Bob, whose name is hostile, with what he did on a server; return Bob's number."""
    await make_person(site, "ann", "owner")
    bob = await make_person(site, "bob")
    await site.parley.sql("UPDATE users SET display_name = :name WHERE id = :id", name=f"Bob {HOSTILE}", id=bob)
    await site.parley.sql(SCENE, hostile=HOSTILE)
    await site.parley.sql("SELECT admin.set_limit('installation', dollars => 50)")
    return bob
