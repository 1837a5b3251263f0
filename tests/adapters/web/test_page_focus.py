"""Where the focus is, for those who use the page by keys alone."""

from playwright.async_api import Browser, Page, expect

from tests.adapters.web.admin.conftest import admin_window, make_person
from tests.adapters.web.browser import Window, open_window
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_page_past import write_long_chat
from tests.standins.openai_api import Answer

MOST_STOPS = 120
ANSWER = """
| tea | cups |
|-----|-----:|
| [oolong](https://example.org) | 3 |

```python
cups = 3
```

$$x^2$$
"""
# The outline of what has the focus has to be there, and no part around it that scrolls may cut it off. The boxes that
# messages are written in have a frame of another colour instead.
FAULT = """() => {
    const focused = document.activeElement;
    const name = `${focused.tagName} ${focused.id || focused.className} ${focused.textContent.trim().slice(0, 20)}`;
    const frame = focused.matches("textarea") && focused.closest(".box, .edit");
    if (frame) {
        const line = getComputedStyle(document.querySelector("header")).borderBottomColor;
        return getComputedStyle(frame).borderTopColor === line ? `${name} has no frame` : null;
    }
    const style = getComputedStyle(focused);
    const [width, offset] = [parseFloat(style.outlineWidth), parseFloat(style.outlineOffset)];
    if (style.outlineStyle === "none" || width < 2) return `${name} has no outline`;
    const box = focused.getBoundingClientRect();
    const grow = width + offset;
    // Where a part scrolls, browsers are content with 32 pixels.
    const isSeen = (start, end, from, to, scrolls) => {
        if (scrolls) return Math.min(end, to) - Math.max(start, from) > Math.min(30, end - start - 2);
        return start - grow >= from && end + grow <= to;
    };
    for (let part = focused.parentElement; part && !part.matches("body, dialog"); part = part.parentElement) {
        if (getComputedStyle(part).overflow === "visible") continue;
        const inner = part.getBoundingClientRect();
        const [left, top] = [inner.left + part.clientLeft, inner.top + part.clientTop];
        const [right, bottom] = [left + part.clientWidth, top + part.clientHeight];
        const isWhole = isSeen(box.left, box.right, left, right, part.scrollWidth > part.clientWidth)
            && isSeen(box.top, box.bottom, top, bottom, part.scrollHeight > part.clientHeight);
        if (!isWhole) return `the outline of ${name} is cut off by ${part.id || part.className || part.tagName}`;
    }
    return null;
}"""
START = """() => {
    window.round = (window.round ?? 0) + 1;
    (document.querySelector("dialog[open]") ?? document).querySelector("a[href], button").focus();
}"""
# Whether the focus has come round.
STEP = """() => {
    const focused = document.activeElement;
    const isOver = focused === document.body || focused.dataset.visited === String(window.round);
    focused.dataset.visited = window.round;
    return isOver;
}"""


async def list_faults(page: Page) -> tuple[list[str], int]:
    """Go through the page by Tab; return where the focus is not seen, and how many stops there are."""
    await page.evaluate(START)
    faults: list[str] = []
    for stop in range(MOST_STOPS):
        if await page.evaluate(STEP):
            return faults, stop
        if fault := await page.evaluate(FAULT):
            faults.append(fault)
        await page.keyboard.press("Tab")
    raise AssertionError("the focus does not come round")


async def test_the_focus_is_seen_wherever_tab_leads_in_a_chat(site: Site, chromium: Browser) -> None:
    await write_long_chat(site.parley, turns=3, chats=20)
    site.parley.model.play([Answer("", tool_calls=[("knowledge__remember", {"content": "a note"})]), Answer(ANSWER)])
    for scheme in ("light", "dark"):
        async with open_window(chromium, site.link("ann"), color_scheme=scheme) as window:
            page = window.page
            await window.says("Which tea?")
            await expect(window.answer()).to_have_attribute("aria-busy", "false")
            await page.get_by_role("button", name="Edit").last.press("Enter")
            faults, stops = await list_faults(page)
            assert (faults, stops > 30) == ([], True)
            await page.get_by_role("button", name="What I remember").press("Enter")
            await expect(page.locator("#memory-list li").first).to_be_visible()
            faults, stops = await list_faults(page)
            assert (faults, stops > 6) == ([], True)


async def test_the_focus_is_seen_wherever_tab_leads_on_the_other_pages(site: Site, chromium: Browser) -> None:
    await make_person(site, "ann", "owner")
    async with admin_window(chromium, site, "ann", viewport={"width": 390, "height": 760}) as window:
        for path in ("/me", "/me/accounts", "/admin", "/admin/people/1", "/admin/personas/new"):
            await window.page.goto(site.url + path)
            faults, stops = await list_faults(window.page)
            assert (path, faults, stops > 4) == (path, [], True)


async def test_the_focus_goes_on_where_what_was_pressed_is_gone(site: Site, window: Window) -> None:
    page, text = window.page, window.page.locator("#text")
    notes = [("knowledge__remember", {"content": f"note {number}"}) for number in range(3)]
    site.parley.model.play([Answer("", tool_calls=notes), *(Answer(f"Answer {number}.") for number in range(9))])
    await page.locator(".ideas button").first.press("Enter")
    await expect(text).to_be_focused()
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await text.fill("by the button")
    await page.locator("#send").press("Enter")
    await expect(text).to_be_focused()
    await expect(window.answer()).to_contain_text("Answer 1.")
    await page.get_by_role("button", name="Try again").press("Enter")
    await expect(window.answer()).to_contain_text("Answer 2.")
    await expect(text).to_be_focused()

    await page.get_by_role("button", name="This chat").press("Enter")
    await page.get_by_role("button", name="Share").press("Enter")
    for count in (1, 2):
        await page.get_by_role("button", name="Make a link").press("Enter")
        await expect(page.locator("#share-list li")).to_have_count(count)
    for rest in (page.locator("#share-list li:only-child button.danger"), page.locator("#share-days")):
        await page.get_by_role("button", name="End the link").first.press("Enter")
        await expect(rest).to_be_focused()
    await page.keyboard.press("Escape")

    await page.get_by_role("button", name="What I remember").press("Enter")
    forget = page.locator("#memory-list button")
    name = await forget.nth(1).get_attribute("aria-label")
    await forget.nth(1).press("Enter")
    await expect(page.get_by_label(str(name), exact=True)).to_have_count(0)
    await expect(forget.nth(1)).to_be_focused()
    await forget.last.press("Enter")
    await expect(page.locator("#memory-search")).to_be_focused()
