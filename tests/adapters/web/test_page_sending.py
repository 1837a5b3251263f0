"""What becomes of messages that are sent one after another, while one of them is held up."""

import asyncio

from playwright.async_api import FilePayload, Route, expect

from tests.adapters.web.browser import Window
from tests.adapters.web.conftest import Site


async def test_a_message_is_sent_after_the_one_before_it(site: Site, window: Window) -> None:
    page, hold, posts = window.page, asyncio.Event(), []

    async def let_through(route: Route) -> None:
        posts.append(route)
        await hold.wait()
        await route.continue_()

    await page.route("**/chat/messages", let_through)
    await window.says("first")
    await window.says("second")
    await expect(page.locator(".person .bubble")).to_have_text(["first", "second"])
    # What was asked for before this has come here.
    await page.evaluate("fetch('/page/state').then((answer) => answer.text())")
    assert len(posts) == 1
    hold.set()
    await expect(page.locator("#stop")).to_be_hidden()
    assert [row[0] for row in await site.parley.sql("SELECT content FROM inbox ORDER BY id")] == ["first", "second"]


async def test_a_message_that_is_refused_goes_back_before_the_one_that_is_written(window: Window) -> None:
    page, hold = window.page, asyncio.Event()

    async def refuse(route: Route) -> None:
        await hold.wait()
        await route.fulfill(status=429, json={"error": {"code": "busy", "message": "Not so fast."}})

    window.expected_complaint = "429"
    await page.route("**/chat/messages", refuse)
    await page.set_input_files("#files", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
    await window.says("the first")
    await page.set_input_files("#files", {"name": "b.txt", "mimeType": "text/plain", "buffer": b"b"})
    await page.locator("#text").fill("the next")
    hold.set()
    await expect(page.locator(".fault")).to_have_text("Not so fast.")
    await expect(page.locator("#text")).to_have_value("the first\n\nthe next")
    await expect(page.locator("#picked .chip-name")).to_have_text(["a.txt", "b.txt"])


async def test_a_chat_that_begins_in_one_window_has_its_name_in_the_other(window: Window) -> None:
    other = await window.context.new_page()
    await other.goto(window.page.url)
    await expect(other.locator("#welcome")).to_be_visible()
    await window.says("Boats?")
    await expect(other.locator("#title")).to_have_text("Boats?")
    await expect(other.locator("#chats a")).to_have_text("Boats?")


async def test_a_picture_that_is_none_and_files_beyond_the_limit_are_no_wall(window: Window) -> None:
    page = window.page
    files = [FilePayload(name=f"{number}.png", mimeType="image/png", buffer=b"no picture") for number in range(23)]
    await page.set_input_files("#files", files)
    await expect(page.locator("#box-note")).to_have_text("20.png is one too many: a message may have 20 files.")
    await expect(page.locator("#picked img")).to_have_count(0)
    await expect(page.locator("#picked .chip > svg")).to_have_count(20)
