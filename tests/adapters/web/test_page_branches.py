"""What people do with single messages and answers on the page, in a real browser."""

from playwright.async_api import Browser, expect

from tests.adapters.web.conftest import Site
from tests.adapters.web.test_page import Window, browser_address, chromium, open_window
from tests.adapters.web.test_page_chats import examine
from tests.standins.openai_api import Answer

__all__ = ["browser_address", "chromium"]


async def test_an_answer_is_asked_for_again_and_a_message_said_otherwise_by_keyboard_in_two_windows(
    site: Site, chromium: Browser
) -> None:
    site.parley.model.play([Answer("Oolong."), Answer("A **pot**."), Answer("A kettle."), Answer("Two cups.")])
    async with open_window(chromium, site.link("ann"), reduced_motion="reduce") as one:
        page = one.page
        await one.says("Which tea?")
        await expect(one.answer()).to_contain_text("Oolong.")
        await one.says("What do I need?")
        await expect(one.answer()).to_contain_text("A pot.")
        async with open_window(chromium, site.link("ann")) as two:
            await two.page.locator("#chats a").click()
            await expect(two.answer()).to_contain_text("A pot.")
            await page.get_by_role("button", name="Try again").click()
            for window in (one, two):
                await expect(window.answer()).to_contain_text("A kettle.")
                await expect(window.answer().get_by_role("group")).to_have_accessible_name("Version 2 of 2")
                await expect(window.page.locator(".message")).to_have_count(4)

            await edits_and_chooses(one, two)


async def edits_and_chooses(one: Window, two: Window) -> None:
    """Say the last message otherwise in one window, and show its earlier versions, by keys alone."""
    page = one.page
    edit = page.locator(".person").last.get_by_role("button", name="Edit")
    await edit.press("Enter")
    text = page.get_by_label("Your message, said otherwise")
    await expect(text).to_have_value("What do I need?")
    await page.keyboard.press("Escape")
    await expect(text).to_have_count(0)
    await expect(edit).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Control+a")
    await page.keyboard.type("<b>And for two?</b>")
    await examine(page, "edit-1280-light")
    await page.locator("#text").fill("a draft")
    await text.press("Enter")
    for window in (one, two):
        await expect(window.answer()).to_contain_text("Two cups.")
        await expect(window.page.locator(".bubble").last).to_have_text("<b>And for two?</b>")
    await expect(page.locator("#text")).to_have_value("a draft")
    await page.get_by_role("button", name="Earlier version").press("Enter")
    await expect(one.answer()).to_contain_text("A kettle.")
    await expect(page.get_by_role("button", name="Earlier version")).to_be_focused()
    await expect(two.answer()).to_contain_text("A kettle.")
    await page.keyboard.press("Enter")
    await expect(one.answer()).to_contain_text("A pot.")
    await expect(page.locator("#announcer")).to_have_text("Version 1 of 3")
    await expect(page.get_by_role("button", name="Later version")).to_be_focused()
    await page.reload()
    await expect(one.answer()).to_contain_text("A pot.")
    await examine(page, "branch-1280-light")
