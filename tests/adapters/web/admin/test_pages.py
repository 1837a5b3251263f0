"""The admin pages in a browser: how they look, and that what strangers have written is text."""

from playwright.async_api import Browser, expect

from tests.adapters.web.admin.conftest import HOSTILE, admin_window, look, write_scene
from tests.adapters.web.conftest import Site


async def test_every_page_is_readable_and_shows_what_strangers_wrote_as_text(site: Site, chromium: Browser) -> None:
    bob = await write_scene(site)
    async with admin_window(chromium, site, "ann") as window:
        page = window.page
        problems = []
        for name, path, text in (
            ("overview", "/admin", f"502. {HOSTILE}"),
            ("people", "/admin/people", f"Bob {HOSTILE}"),
            ("person", f"/admin/people/{bob}", f"Bob {HOSTILE}"),
            ("servers", "/admin/servers", f"{HOSTILE} Night Owls"),
            ("server", "/admin/servers/1", f"{HOSTILE} Night Owls"),
            ("channel", "/admin/servers/1/channels/4712", f"{HOSTILE} Night Owls"),
            ("audit", "/admin/audit", "Ann"),
        ):
            await page.goto(f"{site.url}{path}")
            await expect(page.locator("main")).to_contain_text(text)
            problems += await look(page, name)
            assert await page.locator("main img").count() == 0
        # By the keyboard, past the menu.
        await page.goto(f"{site.url}/admin/nowhere")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Go to the overview")).to_be_focused()
        assert not problems, "\n".join(problems)


async def test_forms_answer_in_place_with_the_way_back_and_the_overview_is_live(site: Site, chromium: Browser) -> None:
    bob = await write_scene(site)
    async with admin_window(chromium, site, "ann", "/") as window:
        page = window.page
        await page.get_by_role("link", name="Admin").click()
        await expect(page.get_by_text("Messages are accepted and answered.")).to_be_visible()

        # What happens elsewhere appears without a reload, and without losing the keyboard's place.
        await page.get_by_role("link", name="People").focus()
        await site.parley.sql("UPDATE token_logs SET cost_estimate = 20 WHERE id = 1")
        await expect(page.get_by_text("$20.04").first).to_be_visible()
        await expect(page.get_by_role("link", name="People")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name="Bob").click()

        budget = page.get_by_role("form", name="Budget")
        await budget.get_by_label("Tokens in 30 days").fill("many")
        await page.keyboard.press("Enter")
        await expect(budget.get_by_role("alert")).to_contain_text("is no whole number")
        await expect(budget.get_by_label("Tokens in 30 days")).to_have_value("many")
        await budget.get_by_label("Tokens in 30 days").fill("12,000")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("status")).to_contain_text("Bob may use 12000 tokens in 30 days.")
        assert await site.parley.value("SELECT token_budget_monthly FROM users WHERE id = :id", id=bob) == 12_000
        await page.get_by_role("status").get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("status")).to_contain_text("has its old values again")
        assert page.url.endswith(f"/admin/people/{bob}")


async def test_a_form_is_sent_once_and_loses_nothing_when_the_pages_close(site: Site, chromium: Browser) -> None:
    bob = await write_scene(site)
    async with admin_window(chromium, site, "ann", f"/admin/people/{bob}") as window:
        page = window.page
        budget = page.get_by_role("form", name="Budget")
        more = page.get_by_role("form", name="More for a while")
        await more.get_by_label("Tokens on top").fill("5")
        await more.get_by_label("Until the end of").fill("2999-01-01")
        await more.get_by_role("button").dblclick()
        await expect(page.get_by_role("status")).to_contain_text("5 tokens more until")
        assert await site.parley.value("SELECT count(*) FROM budget_grants") == 1

        # Whoever may not be here any more is told so, and loses nothing of what was entered.
        await site.parley.sql("UPDATE users SET paused_at = now() WHERE id <> :id", id=bob)
        await budget.get_by_label("Tokens in 30 days").fill("7")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("These pages are closed to you now")
        await expect(budget.get_by_label("Tokens in 30 days")).to_have_value("7")


async def test_everything_works_without_scripts(site: Site, chromium: Browser) -> None:
    await write_scene(site)
    async with admin_window(chromium, site, "ann", "/admin/servers/1", java_script_enabled=False) as window:
        page = window.page
        await page.get_by_role("combobox", name="It answers").select_option("off")
        await page.get_by_role("button", name="Set mode").click()
        await expect(page.get_by_role("status")).to_contain_text("it answers never")
        await page.get_by_role("link", name="Audit").click()
        await page.get_by_label("Who").fill("web:ann")
        await page.get_by_role("button", name="Show").click()
        await page.get_by_role("row", name="channel_modes, added").get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("status")).to_contain_text("is deleted again")
        await expect(page.get_by_text("takes back")).to_be_visible()
    assert await site.parley.value("SELECT count(*) FROM channel_modes") == 0
