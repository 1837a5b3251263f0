"""Chromium, one for all tests of a process, and its windows."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin
from weakref import WeakKeyDictionary

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from tests.support.folders import temporary_folder
from tests.support.source_tree import ROOT

AXE = ROOT / "tests/adapters/web/vendor/axe.min.js"
# The rules of axe whose outcome colours decide.
OF_COLOURS = ("color-contrast", "link-in-text-block")

ARGUMENTS = [
    "--headless",
    "--remote-debugging-port=0",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-startup-window",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    # Nothing is made ready that no test may come to, and windows share what draws them.
    "--disable-back-forward-cache",
    "--disable-features=SpareRendererForSitePerProcess,Prerender2,OptimizationHints,MediaRouter",
    "--renderer-process-limit=1",
]
# On a machine that runs other tests beside this one.
TIMEOUT = 60_000
BLANK = "about:blank"
expect.set_options(timeout=TIMEOUT)


@dataclass
class Window:
    """A browser window on the page; what its console complains about is kept, but for what the test expects."""

    page: Page
    context: BrowserContext
    expected_complaint: str | None = None
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    async def says(self, text: str) -> None:
        """Type a message and send it with Enter."""
        await self.page.locator("#text").fill(text)
        await self.page.keyboard.press("Enter")

    def answer(self, number: int = -1) -> Any:
        """Return an answer of the agent: its place in the page."""
        return self.page.locator(".message.agent").nth(number)


@contextmanager
def running_chromium(program: str) -> Iterator[str]:
    """Run Chromium; return its address."""
    with temporary_folder("chromium") as profile:
        command = [str(shutil.which(program)), *ARGUMENTS, f"--user-data-dir={profile}"]
        # Debian starts it by a shell script, which would not pass the signal on.
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stderr is not None
            address = next(line.split()[-1] for line in process.stderr if line.startswith("DevTools listening on"))
            # A full pipe would block the process.
            reading = threading.Thread(target=process.stderr.read)
            reading.start()
            try:
                yield address
            finally:
                # Also behind a test that fails, which would wait for it for ever.
                os.killpg(process.pid, signal.SIGTERM)
                reading.join()


@pytest.fixture(scope="session")
def browser_address() -> Iterator[str]:
    """Chromium, for all tests of this process."""
    # The same engine without the parts of a desktop program, which take a second of the processor for each window.
    with running_chromium("chromium-headless-shell") as address:
        yield address


@pytest.fixture(scope="session")
async def chromium(browser_address: str) -> AsyncIterator[Browser]:
    """The connection to it; each takes a program of its own, half a second of the processor."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(browser_address, timeout=TIMEOUT)
        yield browser
        await browser.close()


# The context that windows without options have one after another: each has a process of its own, whose start takes a
# fifth of what the processor does for a window.
FREE: WeakKeyDictionary[Browser, BrowserContext] = WeakKeyDictionary()


async def empty(context: BrowserContext, *addresses: str) -> BrowserContext:
    """Leave nothing in a context of what a window has stored or been allowed at these addresses, and return it."""
    # Without any page its process would end.
    blank = next((page for page in context.pages if page.url == BLANK), None) or await context.new_page()
    for page in context.pages:
        if page is not blank:
            await page.close()
    await context.clear_cookies()
    await context.clear_permissions()
    await context.set_offline(False)
    session = await context.new_cdp_session(blank)
    for origin in {urljoin(address, "/") for address in addresses if address != BLANK}:
        await session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    await session.detach()
    return context


@asynccontextmanager
async def open_window(chromium: Browser, address: str, **options: Any) -> AsyncIterator[Window]:
    """Open an address in a window of its own; at its end nothing may have complained."""
    context = FREE.pop(chromium, None) if not options else None
    if context is None:
        context = await chromium.new_context(**options)
        context.set_default_timeout(TIMEOUT)
    page = await context.new_page()
    window = Window(page, context)
    page.on(
        "console", lambda entry: window.complaints.append(entry.text) if entry.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: window.complaints.append(str(error)))
    page.on("request", lambda request: window.requests.append(request.url))
    await follow_link(page, address)
    try:
        yield window
    finally:
        if options or chromium in FREE:
            await context.close()
        else:
            FREE[chromium] = await empty(context, address, page.url)
    expected = window.expected_complaint
    assert [complaint for complaint in window.complaints if expected is None or expected not in complaint] == []


async def follow_link(page: Page, address: str) -> None:
    """Open the page as its person."""
    await page.goto(address)
    # The link's own page only leads to the chat, whose scripts have run once that is loaded.
    await page.wait_for_url(lambda url: "key=" not in url)


async def take_picture(page: Page, name: str, **options: Any) -> None:
    """Keep a picture of the page in the folder that `PICTURES` names, where it names one: nothing reads them."""
    if folder := os.environ.get("PICTURES"):
        await page.screenshot(path=ROOT / folder / f"{name}.png", **options)


async def list_violations(page: Page, *rules: str) -> list[str]:
    """Let axe look at the page once nothing moves there any more; return each rule that is broken, and where.

    With `rules` it looks for these alone.
    """
    if not await page.evaluate("Boolean(window.axe)"):
        # Evaluated, because the page's policy lets no script tag in.
        await page.evaluate(AXE.read_text("utf-8"))
    # A list that slides away is still there to be read, but nowhere to be seen.
    await page.evaluate(
        "Promise.allSettled(document.getAnimations()"
        ".filter(motion => motion instanceof CSSTransition).map(motion => motion.finished)).then(() => null)"
    )
    # No rule that it goes by reads style sheets, which it would fetch and parse each time.
    broken = await page.evaluate(
        "rules => axe.run(document, { resultTypes: ['violations'], preload: { assets: ['media'] },"
        " ...(rules.length ? { runOnly: rules } : {}) })"
        ".then(({violations}) => violations.map(({id, nodes}) => `${id}: ${nodes.map(node => node.html).join(' ')}`))",
        rules,
    )
    return [str(rule) for rule in broken]
