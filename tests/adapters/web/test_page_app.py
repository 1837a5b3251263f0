"""The page as an app: its theme, what it tells while nobody looks at it, and what is there without a network."""

import json
import shutil

from playwright.async_api import Browser, async_playwright, expect

from adapters.web.page.page import OFFLINE, to_address
from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_page import remind
from tests.adapters.web.test_page_chats import examine

# A window that is hidden, and what it tells: a browser without a screen has neither.
HIDDEN = """
window.told = [];
window.Notification = class extends EventTarget {
    static permission = "granted";
    constructor(title, options) { super(); window.told.push(options.body); }
};
Object.defineProperty(document, "hidden", { get: () => window.isAway === true });
"""
# The first notification that a desktop's browser shows; it has no screen either, where a page could be hidden.
SHOWN = """
window.shown = new Promise((resolve) => {
    window.Notification = class extends window.Notification {
        constructor(title, options) {
            super(title, options);
            this.addEventListener("show", () => resolve([this.title, this.body]));
        }
    };
});
Object.defineProperty(document, "hidden", { get: () => window.isAway === true });
"""
KEPT = """async () => {
    const kept = [];
    for (const name of await caches.keys()) kept.push(...await (await caches.open(name)).keys());
    return kept.map((request) => request.url);
}"""


async def test_the_page_has_a_theme_tells_what_is_missed_and_opens_offline(site: Site, chromium: Browser) -> None:
    async with open_window(chromium, site.link("ann"), service_workers="allow") as window:
        page = window.page
        await page.add_init_script(HIDDEN)
        await page.get_by_label("Theme").select_option("dark")
        await page.reload()
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(21, 25, 23)"
        await window.says("hello")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        await examine(page, "theme-1280-dark")
        await page.get_by_role("button", name="Notify me").press("Enter")
        await expect(page.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "true")
        await page.evaluate("window.isAway = true")
        await window.says("are you there?")
        await expect(page.locator(".agent[aria-busy=false]")).to_have_count(2)
        assert await page.evaluate("window.told") == ["You said: are you there?"]

        await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        kept = await page.evaluate(KEPT)
        assert {address.removeprefix(site.url) for address in kept} == {to_address(path) for path in OFFLINE}
        manifest = json.loads(
            await page.evaluate("fetch('/static/parley.webmanifest').then((answer) => answer.text())")
        )
        assert (manifest["scope"], manifest["display"], len(manifest["icons"])) == ("/", "standalone", 3)
        await window.context.set_offline(True)
        await page.goto(site.url)
        await expect(page.locator("h1")).to_have_text("You are offline")
        await window.context.set_offline(False)
        await page.get_by_role("link", name="Try again").click()
        await expect(window.answer()).to_contain_text("You said: are you there?")
        window.complaints = [
            complaint for complaint in window.complaints if "ERR_INTERNET_DISCONNECTED" not in complaint
        ]


async def test_the_browser_shows_a_reminder_that_falls_due_while_the_page_is_hidden(site: Site) -> None:
    # The part without a desktop, which the other tests use, refuses all notifications.
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        async with open_window(chromium, site.link("ann"), permissions=["notifications"]) as window:
            page = window.page
            await page.add_init_script(SHOWN)
            await page.reload()
            await window.says("hello")
            await expect(window.answer()).to_have_attribute("aria-busy", "false")
            await page.get_by_role("button", name="Notify me").click()
            await page.evaluate("window.isAway = true")

            await remind(site)

            assert await page.evaluate("window.shown") == ["Parley", "Reminder: Feed the bikes."]
        await chromium.close()
