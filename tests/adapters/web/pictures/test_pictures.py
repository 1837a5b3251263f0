"""Takes the pictures: the chat page, the admin pages, "About me" and the terminal."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.adapters.web.admin.conftest import admin_window
from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import Site
from tests.adapters.web.pictures import scenes, terminal
from tests.adapters.web.pictures.album import SVG, hide_scrollbars, keep, write
from tests.standins.openai_api import Answer

DESKTOP: dict[str, Any] = {"viewport": {"width": 1120, "height": 720}, "color_scheme": "light"}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 760}, "color_scheme": "dark", "device_scale_factor": 2}
PAGES = {"admin-overview": "/admin", "admin-spend": "/admin/spend", "me": "/me"}

pytestmark = pytest.mark.settings(llm_models=("openai/gpt-4.1",), default_guest_token_budget=400_000)


async def test_the_pictures_of_the_pages_are_taken(site: Site, chromium: Browser) -> None:
    turn = await scenes.write_past(site)
    async with open_window(chromium, site.link("ann"), **DESKTOP) as window:
        for question in scenes.CHATS:
            site.parley.model.play([Answer("Gladly.")])
            await window.says(question)
            await expect(window.answer()).to_contain_text("Gladly.")
            await window.page.get_by_role("button", name="New chat").click()
        await talk(window.page, site)
        await keep(window.page, "chat")
        address = window.page.url
    async with open_window(chromium, site.link("ann"), **PHONE) as window:
        await hide_scrollbars(window.page)
        await window.page.goto(address)
        await expect(window.page.locator("table")).to_be_visible()
        await keep(window.page, "chat-phone")
    async with admin_window(chromium, site, "ann", **DESKTOP) as window:
        await hide_scrollbars(window.page)
        for name, path in {**PAGES, "admin-explain": f"/admin/turns/{turn}"}.items():
            await window.page.goto(f"{site.url}{path}")
            if name == "admin-spend":
                await expect(window.page.locator(".plot canvas")).to_be_visible()
            await keep(window.page, name)


async def talk(page: Page, site: Site) -> None:
    """Ask what calls tools and is answered with a table."""
    site.parley.model.play([Answer(tool_calls=scenes.CALLS), Answer(scenes.TABLE)])
    await page.locator("#text").fill(scenes.QUESTION)
    await page.keyboard.press("Enter")
    await expect(page.locator("table")).to_be_visible()
    await expect(page.locator(".message.agent").last).to_contain_text("252")


async def test_the_picture_of_the_terminal_is_taken(site: Site, tmp_path: Path) -> None:
    environment = {
        "DATABASE_URL": site.parley.app.database.address.libpq(as_owner=True),
        "PARLEY_HOME": str(tmp_path),
        "LLM_MODELS": "openai/gpt-4.1",
        "OPENAI_BASE_URL": site.parley.model.base_url,
        "OPENAI_API_KEY": "sk-test",
        "EMBEDDING_MODEL": "off",
    }
    site.parley.model.play([Answer(tool_calls=scenes.CALLS[:1]), Answer(scenes.SHORT_TABLE)])
    output = await terminal.run(tmp_path, environment, "chat", scenes.SHORT_QUESTION)

    screen = terminal.to_screen(output)
    assert "Otter" in screen
    picture = terminal.draw(f'parley chat "{scenes.SHORT_QUESTION}"', screen, SVG)
    # The picture ends below its last line.
    height = float(re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', picture)[0])
    assert height > max(float(y) for y in re.findall(r'<text [^>]* y="([\d.]+)"', picture)) + 40
    write("terminal.svg", picture.encode())
