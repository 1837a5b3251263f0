"""What is remembered about the page's person: shown and searched there, forgotten, exported and erased."""

import json
import re

from playwright.async_api import Browser, Page, expect

from shared.messages import Place
from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import Site
from tests.support.summaries import memories


async def ann_with(site: Site, *contents: str) -> int:
    """Let Ann have these memories from the page, and return the number of her user."""
    async with site.browser("ann") as ann:
        await ann.post("/chat/commands", json={"chat": "a", "command": "/me"})
    user_id = int(await site.parley.value("SELECT user_id FROM user_platform_links WHERE platform_user_id = 'ann'"))
    memory = site.parley.app.memory.of_user(user_id, Place("web", None, "ann/a", is_direct=True), None)
    for content in contents:
        await memory.remember(content)
    return user_id


async def test_the_page_shows_searches_and_forgets_what_is_remembered(site: Site, chromium: Browser) -> None:
    await ann_with(site, "likes oolong", "has a walrus called Rex", "likes green tea")
    async with open_window(chromium, site.link("ann")) as window:
        page = window.page
        await page.locator("#open-memories").click()
        await expect(page.locator("#memory-list li").first).to_contain_text(
            re.compile(r"likes green tea\w{3} \d+, 20\d\d · asked to remember · direct messages only")
        )
        await search(page, "walrus", 1)
        await page.locator("#memory-about").click()
        await expect(page.locator("#memory-reply")).to_contain_text("has a walrus called Rex")
        await expect(page.locator("#memory-reply")).not_to_contain_text("/confirm")
        assert len(await memories(site.parley)) == 3
        await page.get_by_role("button", name="Yes, do it").click()
        await expect(page.locator("#memory-reply")).to_contain_text("I have forgotten 1 of your memories")
        await expect(page.locator("#memory-none")).to_have_text("No memory has these words.")

        await search(page, "", 2)
        await page.get_by_role("button", name="Forget: likes oolong").click()
        await expect(page.locator("#memory-list li")).to_have_count(1)
        await page.get_by_role("button", name="Pause remembering").click()
        await expect(page.get_by_role("button", name="Remember again")).to_be_visible()
    assert await site.parley.value("SELECT is_memory_paused FROM users")


async def search(page: Page, words: str, count: int) -> None:
    await page.locator("#memory-search").fill(words)
    await page.keyboard.press("Enter")
    await expect(page.locator("#memory-list li")).to_have_count(count)


async def test_the_page_exports_and_erases_its_person(site: Site, chromium: Browser) -> None:
    user_id = await ann_with(site, "likes green tea")
    async with open_window(chromium, site.link("ann"), viewport={"width": 390, "height": 700}) as window:
        page = window.page
        await page.locator("#menu").click()
        await page.locator("#open-memories").click()
        await page.get_by_role("button", name="Export everything").click()
        async with page.expect_download() as downloading:
            await page.locator("#memory-reply a.download").click()
        archive = json.loads((await (await downloading.value).path()).read_text())
        assert [memory["content"] for memory in archive["memories"]] == ["likes green tea"]

        await page.get_by_role("button", name="Erase me").click()
        await page.get_by_role("button", name="Yes, do it").click()
        await expect(page.locator("#memory-reply")).to_contain_text("You are erased.")
        await expect(page.locator("#memory-none")).to_have_text("I remember nothing about you any more.")
    assert await site.parley.value("SELECT count(*) FROM web_sessions") == 0
    assert await site.parley.value("SELECT count(*) FROM users WHERE id = :id", id=user_id) == 0


async def test_a_command_in_the_chat_has_its_buttons_and_its_file_there(site: Site, chromium: Browser) -> None:
    async with open_window(chromium, site.link("ann")) as window:
        await window.says("/export")
        await expect(window.answer().locator("a.download")).to_contain_text("parley-archive-")
        await window.says("/memory forget all")
        await window.page.get_by_role("button", name="No", exact=True).click()
        await expect(window.answer()).to_contain_text("Nothing was changed.")


async def test_memories_are_their_person_s_alone_and_a_group_gets_no_archive(site: Site) -> None:
    await ann_with(site, "likes oolong")
    async with site.browser("ann") as ann, site.browser("bob") as bob:
        assert len((await ann.get("/chat/memories")).json()["memories"]) == 1
        assert (await bob.get("/chat/memories")).json()["memories"] == []
        assert (await bob.get("/chat/memories?skip=x")).status_code == 400
        assert (await bob.post("/chat/commands", json={"chat": "a", "command": "hello"})).status_code == 400
    assert (await site.client.get("/chat/memories")).status_code in (401, 403)

    alone = (await site.posts("/export")).json()
    group = (await site.posts("/export", platform_server_id="guild")).json()
    assert len(alone["files"]) == 1
    assert (group["files"], group["content"]) == ([], "This is for you alone: please ask me in a direct message.")


async def test_who_confirms_to_be_erased_is_signed_out_however_the_slash_is_written(site: Site) -> None:
    await ann_with(site, "likes oolong")
    async with site.browser("ann") as ann:
        question = (await ann.post("/chat/commands", json={"chat": "a", "command": "/erase me"})).json()
        line = question["commands"][0]["line"].replace("/", "\uff0f")
        answer = (await ann.post("/chat/commands", json={"chat": "a", "command": line})).json()

    assert (question["is_signed_out"], answer["is_signed_out"]) == (False, True), answer
