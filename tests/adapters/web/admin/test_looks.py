"""The pages of spending, turns, personas, tools and replies in a real browser."""

from playwright.async_api import Browser, Page, expect

from tests.adapters.web.admin.conftest import admin_window, look, make_person
from tests.adapters.web.admin.scenes import write_past
from tests.adapters.web.conftest import Site


async def test_the_pages_can_be_read_by_everybody_and_answer_in_place(site: Site, chromium: Browser) -> None:
    await make_person(site, "ann", "owner")
    turn = await write_past(site)
    persona = await site.parley.value("SELECT id FROM personas WHERE name = 'Sage'")
    pages = {
        "spend": "/admin/spend",
        "turn": f"/admin/turns/{turn}",
        "personas": "/admin/personas",
        "persona": f"/admin/personas/{persona}",
        "versions": f"/admin/personas/{persona}/versions",
        "tools": "/admin/tools",
        "schedules": "/admin/schedules",
        "outbox": "/admin/outbox",
    }
    problems = []
    async with admin_window(chromium, site, "ann") as window:
        page = window.page
        for name, path in pages.items():
            await page.goto(f"{site.url}{path}")
            if name == "spend":
                await expect(page.locator(".plot canvas")).to_be_visible()
            problems += await look(page, name)
            assert await page.title() != "1"
        await write_a_persona(page, f"{site.url}/admin/personas/{persona}")
        problems += await look(page, "persona-preview")
        problems += await watch_turns(page, site)
        assert problems == []


async def write_a_persona(page: Page, address: str) -> None:
    """Change a persona without leaving its page, take it back, and look at what it would do."""
    await page.goto(address)
    await page.get_by_label("Instructions").fill("You are wise.\nYou are short.")
    await page.get_by_label("Highest temperature").fill("warm")
    await page.get_by_role("button", name="Store").click()
    await expect(page.get_by_role("alert")).to_contain_text("'warm' is no number")
    await expect(page.get_by_label("Instructions")).to_have_value("You are wise.\nYou are short.")
    await page.get_by_label("Highest temperature").fill("0.7")
    await page.get_by_role("button", name="Store").click()
    await expect(page.locator("#result")).to_contain_text("The persona Sage is changed.")
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator("#result")).to_contain_text("has its old values again")
    await expect(page.get_by_label("Instructions")).to_have_value("You are wise.\nTake your time.")
    await page.get_by_label("Only these modules").check()
    await page.get_by_label("calculator").check()
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("#preview")).to_contain_text("calculator.calculate")
    await expect(page.get_by_label("calculator")).to_be_checked()


async def watch_turns(page: Page, site: Site) -> list[str]:
    """See a turn come by itself; return what is wrong with the page."""
    await page.clock.install()
    await page.goto(f"{site.url}/admin/turns")
    rows = page.locator("#turns tbody tr")
    await expect(rows).to_have_count(2)
    site.parley.model.play(["Hello."])
    await site.parley.ask("Hi", user="cyd", username="Cyd")
    await page.clock.fast_forward(4000)
    await expect(rows).to_have_count(3)
    await expect(rows.first).to_contain_text("Cyd")
    return await look(page, "turns")
