"""The page as an app: its theme, what it tells while nobody looks at it, and what is there without a network."""

import json
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from adapters.web.page.page import OFFLINE, to_address
from tests.adapters.web.browser import TIMEOUT, Window, follow_link, open_window, running_chromium
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_page import remind
from tests.adapters.web.test_page_chats import examine
from tests.standins.openai_api.script import gated_answer

# The notifications that a desktop's browser shows, each with what a click on it does.
SHOWN = """
window.notices = [];
window.Notification = class extends window.Notification {
    constructor(title, options) {
        super(title, options);
        this.addEventListener("show", () => window.notices.push(this));
    }
};
"""
KEPT = """async () => {
    const kept = [];
    for (const name of await caches.keys()) kept.push(...await (await caches.open(name)).keys());
    return kept.map((request) => request.url);
}"""


async def test_the_page_has_a_theme_and_opens_offline(site: Site, chromium: Browser) -> None:
    async with open_window(chromium, site.link("ann"), service_workers="allow") as window:
        page = window.page
        await page.get_by_label("Theme").select_option("dark")
        await page.reload()
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(21, 25, 23)"
        await window.says("hello")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        await examine(page, "theme-1280-dark")
        await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        kept = await page.evaluate(KEPT)
        assert {address.removeprefix(site.url) for address in kept} == {to_address(path) for path in OFFLINE}
        manifest = json.loads(
            await page.evaluate("fetch('/static/parley.webmanifest').then((answer) => answer.text())")
        )
        assert (manifest["scope"], manifest["display"], len(manifest["icons"])) == ("/", "standalone", 3)
        assert manifest["description"] == "Chat with Parley."
        await window.context.set_offline(True)
        await page.goto(site.url)
        await expect(page.locator("h1")).to_have_text("You are offline")
        await window.context.set_offline(False)
        await page.get_by_role("link", name="Try again").click()
        await expect(window.answer()).to_contain_text("You said: hello")
        window.complaints = [
            complaint for complaint in window.complaints if "ERR_INTERNET_DISCONNECTED" not in complaint
        ]


@pytest.fixture(scope="module")
async def desktop() -> AsyncIterator[BrowserContext]:
    """A browser as on a desktop, which shows notifications, and hides a page behind another one."""
    # The part without a desktop, which the other tests use, refuses all notifications. With Playwright's defaults every
    # page counts as one that is seen.
    with running_chromium("chromium") as address:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.connect_over_cdp(address, no_defaults=True)
            (context,) = browser.contexts
            context.set_default_timeout(TIMEOUT)
            await context.grant_permissions(["notifications"])
            yield context
            await browser.close()


@pytest.fixture
async def window(site: Site, desktop: BrowserContext) -> AsyncIterator[Window]:
    """A chat in it, of which notifications are on; nothing of it is left for the next test."""
    page = await desktop.new_page()
    await page.add_init_script(SHOWN)
    await follow_link(page, site.link("ann"))
    window = Window(page, desktop)
    await window.says("hello")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await page.get_by_role("button", name="Notify me").press("Enter")
    await expect(page.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "true")
    yield window
    session = await desktop.new_cdp_session(page)
    await session.send("Storage.clearDataForOrigin", {"origin": site.url, "storageTypes": "all"})
    await desktop.clear_cookies()
    for tab in desktop.pages:
        await tab.close()


# Else a notice about the budget may be among what arrives.
@pytest.mark.settings(default_guest_token_budget=1_000_000)
async def test_the_browser_shows_what_arrives_in_any_chat_while_the_page_is_hidden(site: Site, window: Window) -> None:
    gate, late = gated_answer("Bikes need oil.")
    page = window.page
    first = page.url.partition("#")[2]
    site.parley.model.play(late)
    await window.says("what do bikes need?")
    await site.parley.model.until(2)
    await page.get_by_role("button", name="New chat").click()
    await window.says("and what else?")
    await site.parley.model.until(3)
    second = page.url.partition("#")[2]
    other = await window.context.new_page()
    await page.wait_for_function("() => document.hidden", polling=100)

    gate.set()
    await sees(page, told := ["Bikes need oil."] * 2)
    for chat, content in ((first, "Feed the bikes."), (second, "Oil them.")):
        await remind(site, chat, content)
        await sees(page, told := [*told, f"Reminder: {content}"])
    await other.close()
    await page.evaluate("window.notices[2].dispatchEvent(new Event('click'))")
    await expect(window.answer()).to_contain_text("Feed the bikes.")
    assert page.url.endswith(first)


async def test_a_hidden_tab_is_silent_while_the_person_looks_at_another_one(site: Site, window: Window) -> None:
    page = window.page
    other = await window.context.new_page()
    await other.goto(page.url)
    await page.wait_for_function("() => document.hidden", polling=100)

    await remind(site, content="Feed the bikes.")
    for tab in (other, page):
        await tab.wait_for_function("() => document.body.textContent.includes('Feed the bikes.')", polling=100)
    await other.goto("about:blank")
    await remind(site, content="Oil them.")
    await sees(page, ["Reminder: Oil them."])
    await other.close()


async def test_a_tab_that_was_shown_and_hidden_at_once_still_notifies_and_so_does_one_without_locks(
    site: Site, window: Window
) -> None:
    page = window.page
    # As events come that waited for a busy tab.
    await page.evaluate("""async () => {
        for (let count = 0; count < 3; count += 1) document.dispatchEvent(new Event("visibilitychange"));
        // Behind those of the tab.
        await navigator.locks.request("parley.seen", { mode: "shared" }, () => null);
    }""")
    other = await window.context.new_page()
    await page.wait_for_function("() => document.hidden", polling=100)
    await remind(site, content="Feed the bikes.")
    await sees(page, told := ["Reminder: Feed the bikes."])

    # As browsers answer that store nothing for a site.
    refuse = "() => Promise.reject(new DOMException('', 'SecurityError'))"
    await page.evaluate(f"() => {{ navigator.locks.query = {refuse}; }}")
    await remind(site, content="Oil them.")
    await sees(page, [*told, "Reminder: Oil them."])
    await other.close()


async def open_hanging_tab(site: Site, window: Window) -> Page:
    """Hide the page behind another tab, which holds the lock of one that is seen, and answers nothing."""
    tab = await window.context.new_page()
    await tab.goto(f"{site.url}/static/icon.svg")
    await tab.evaluate("""() => new Promise((resolve) => {
        window.question = new Promise((hear) => { new BroadcastChannel("parley.seen").onmessage = hear; });
        const hold = () => { resolve(); return new Promise(() => {}); };
        navigator.locks.request("parley.seen", { mode: "shared" }, hold);
    })""")
    await window.page.wait_for_function("() => document.hidden", polling=100)
    return tab


async def test_a_tab_that_hangs_while_it_is_seen_keeps_no_other_one_silent(site: Site, window: Window) -> None:
    other = await open_hanging_tab(site, window)

    await remind(site, content="Feed the bikes.")
    await sees(window.page, ["Reminder: Feed the bikes."])
    await other.close()


async def test_who_comes_back_while_the_other_tab_is_asked_is_not_notified_of_what_they_see(
    site: Site, window: Window
) -> None:
    page, other = window.page, await open_hanging_tab(site, window)

    await remind(site, content="Feed the bikes.")
    await other.evaluate("window.question.then(() => null)")
    await other.close()
    await page.wait_for_function("() => !document.hidden", polling=100)
    # Behind that of the tab, which has begun before.
    await page.evaluate("new Promise((resolve) => { setTimeout(resolve, 5000); })")
    await sees(page, [])


async def sees(page: Page, texts: list[str]) -> None:
    """Wait until the browser has shown as many notifications; they are these."""
    await page.wait_for_function("count => window.notices.length >= count", arg=len(texts), polling=100)
    assert await page.evaluate("window.notices.map((notice) => notice.body)") == texts
