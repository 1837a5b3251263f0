"""What people do with single messages and answers on the page, in a real browser."""

from playwright.async_api import Browser, expect

from tests.adapters.web.browser import Window, open_window
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_messages import refusal
from tests.adapters.web.test_page_chats import examine
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import gated_answer


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
    await page.keyboard.type("/etc/tea: <b>and for two?</b>")
    await examine(page, "edit-1280-light")
    await page.locator("#text").fill("a draft")
    await text.press("Enter")
    for window in (one, two):
        await expect(window.answer()).to_contain_text("Two cups.")
        await expect(window.page.locator(".bubble").last).to_have_text("/etc/tea: <b>and for two?</b>")
    await expect(page.locator("#text")).to_have_value("a draft")
    # A path is no command: what begins with one can be edited once more.
    await expect(edit).to_be_visible()
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


async def test_thumbs_with_a_comment_stay_and_a_stopped_answer_goes_on(site: Site, chromium: Browser) -> None:
    _, endless = gated_answer("never")
    site.parley.model.play([Answer("Oolong.")])
    async with open_window(chromium, site.link("ann"), viewport={"width": 360, "height": 800}) as window:
        page = window.page
        await window.says("Which tea?")
        good = page.get_by_role("button", name="Good answer")
        await good.press("Enter")
        await page.get_by_label("What was good about it?").fill("<i>short</i>")
        await page.keyboard.press("Enter")
        await expect(page.locator(".why [role=status]")).to_have_text("Saved.")
        await examine(page, "feedback-360-light")
        await page.reload()
        await expect(good).to_have_attribute("aria-pressed", "true")
        await expect(page.get_by_label("What was good about it?")).to_have_value("<i>short</i>")
        await page.get_by_role("button", name="Bad answer").press("Enter")
        await expect(good).to_have_attribute("aria-pressed", "false")
        assert await site.parley.sql("SELECT score, comment FROM feedback") == [(-1, None)]
        turn = await site.parley.value("SELECT id FROM turns")
        async with site.browser("bob") as bob:
            for chat in (page.url.partition("#")[2], "c1"):
                theirs = await bob.put(f"/page/chats/{chat}/turns/{turn}/feedback", json={"score": 1})
                assert refusal(theirs) == "404 not_found: There is no such answer."

        site.parley.model.play(endless)
        await window.says("Tell me more")
        await site.parley.model.until(2)
        await page.keyboard.press("Escape")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        site.parley.model.play([Answer("There it goes.")])
        await page.get_by_role("button", name="Go on").press("Enter")
        await expect(window.answer()).to_contain_text("There it goes.")
        await expect(page.locator(".bubble").last).to_have_text("Please go on.")
