"""Measures the pages in a real browser and prints figures beside their goals; no time decides whether it passes."""

from collections.abc import Awaitable, Callable
from time import perf_counter

from playwright.async_api import Browser, Page, expect

from tests.adapters.web.admin.conftest import make_person
from tests.adapters.web.admin.test_spending_and_turns import write_busy_channel
from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_page_past import write_long_chat
from tests.bench.figures import Figure, report
from tests.standins.openai_api import Answer

ROUNDS = 5
# Ten seconds of a fast model, with all that is slow to draw.
BLOCKS = ["A paragraph with **bold words**, `code` and a [link](https://parley.example/).\n\n"] * 6
LISTS = ["| Boat | Seats |\n|---|---:|\n| Otter | 5 |\n| Swan | 5 |\n\n", "- one\n- two\n  - three\n\n"]
CODE = "```python\n" + "def f(x: int) -> int:\n    return x * 2\n" * 10 + "```\n\n"
STORY = "".join([*BLOCKS, *LISTS, CODE]) * 8
# Frames in each second while the last answer is being written, the slowest second and the mean.
COUNT_FRAMES = """
new Promise((resolve) => {
  const seconds = [];
  let frames = 0, since = performance.now();
  const count = (now) => {
    frames += 1;
    if (now - since >= 1000) { seconds.push(frames * 1000 / (now - since)); frames = 0; since = now; }
    const answer = [...document.querySelectorAll(".message.agent")].at(-1);
    if (answer?.getAttribute("aria-busy") === "false") resolve(seconds); else requestAnimationFrame(count);
  };
  requestAnimationFrame(count);
})
"""


async def least(act: Callable[[], Awaitable[object]]) -> float:
    """Return the seconds of the fastest of some rounds."""
    seconds = []
    for _ in range(ROUNDS):
        begun_at = perf_counter()
        await act()
        seconds.append(perf_counter() - begun_at)
    return min(seconds)


async def test_the_figures_of_the_pages(site: Site, chromium: Browser) -> None:
    await make_person(site, "bob", "owner")
    await write_long_chat(site.parley, turns=1000, chats=100)
    await write_busy_channel(site.parley)
    async with site.browser("bob") as bob:
        turns = await least(lambda: bob.get("/admin/turns?place=busy"))
    async with open_window(chromium, site.link("ann")) as window:
        page = window.page
        await page.locator("#chats a").first.click()
        opening = await least(lambda: open_anew(page))
        site.parley.model.play([Answer(STORY, chunk_chars=12, chunk_delay=0.01)])
        await page.locator("#new-chat").click()
        await window.says("a long story")
        await expect(window.answer()).to_have_attribute("aria-busy", "true")
        frames = await page.evaluate(COUNT_FRAMES)
    assert frames
    report(
        [
            Figure("list of 10,000 turns", turns * 1000, "ms", at_most=300),
            Figure("chat of 2,000 messages opens", opening * 1000, "ms", at_most=1000),
            Figure("frames while an answer streams", sum(frames) / len(frames), "/s", at_least=50),
            Figure("frames in its slowest second", min(frames), "/s"),
        ]
    )


async def open_anew(page: Page) -> None:
    """Load the page, and wait until the end of the chat is there to be read."""
    await page.reload()
    await expect(page.locator(".person .bubble").last).to_have_text("question 1000")
    await expect(page.locator(".message.agent").last).to_be_in_viewport()
