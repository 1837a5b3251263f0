"""What people do with chats, files and keys on the page, in a real browser."""

from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace
from playwright.async_api import Browser, Locator, Page, expect
from sqlalchemy.exc import IntegrityError

from tests.adapters.web.browser import OF_COLOURS, Window, list_violations, open_window, take_picture
from tests.adapters.web.conftest import Site, open_site
from tests.adapters.web.test_chat import sends
from tests.adapters.web.test_page_past import write_long_chat
from tests.standins.openai_api import Answer, Fault
from tests.standins.openai_api.script import gated_answer
from tests.support.pictures import picture

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
ANSWER = """## What I found

A [link](https://example.org), `code` and a list:

- [x] done
- [ ] to do

| tea | cups |
|-----|-----:|
| oolong | 3 |

> Quoted.

```python
def brew(cups: int) -> str:
    return f"{cups} cups"  # enough
```
"""


async def test_a_chat_is_renamed_pinned_exported_and_erased(site: Site, chromium: Browser) -> None:
    await write_long_chat(site.parley, turns=100, chats=3)
    async with open_window(chromium, site.link("ann")) as window:
        page = window.page
        await expect(page.locator("#chats .day")).to_have_text(["Today", "Yesterday", "The last 7 days"])
        await page.locator("#chats a").nth(2).click()
        await expect(page.locator(".bubble")).to_have_text("question 1")
        await page.get_by_role("button", name="This chat").click()
        await page.get_by_role("button", name="Rename").click()
        await page.get_by_label("New name").fill("<b>Tea</b>")
        await page.keyboard.press("Enter")
        await expect(page.locator("#title")).to_have_text("<b>Tea</b>")
        await page.get_by_role("button", name="This chat").click()
        await page.get_by_role("button", name="Pin", exact=True).click()
        await expect(page.locator("#chats a").first).to_contain_text("<b>Tea</b>")

        await page.locator("#chats a").first.click()
        await expect(page.locator(".bubble")).to_have_text("question 1")
        await page.get_by_role("button", name="This chat").click()
        async with page.expect_download() as download_info:
            await page.get_by_text("Export as Markdown").click()
        assert "answer 1" in (await (await download_info.value).path()).read_text()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_label("Delete this chat?").get_by_role("button", name="Delete").click()
        await expect(page.locator("#welcome")).to_be_visible()
        await expect(page.locator("#chats a")).to_have_count(3)
        await expect(page.locator("#text")).to_be_focused()
    assert await site.parley.value("SELECT count(*) FROM conversations") == 3


async def test_a_long_chat_is_printed_whole_and_opened_where_a_match_of_the_search_stands(
    site: Site, chromium: Browser
) -> None:
    await write_long_chat(site.parley, turns=100, chats=1)
    async with open_window(chromium, site.link("ann")) as window:
        page = window.page
        # On paper it is whole.
        await page.evaluate("print = () => { window.printed = document.querySelectorAll('.message').length }")
        await page.locator("#chats a").first.click()
        await expect(page.locator(".message")).to_have_count(60)
        await page.get_by_role("button", name="This chat").click()
        await page.get_by_role("button", name="Print, or save as PDF").click()
        await page.wait_for_function("() => window.printed === 200")
        await page.reload()
        await page.get_by_label("Search all chats").fill("question 7")
        await page.locator("#matches a", has_text="question 7").last.click()
        await expect(page.locator(".match")).to_contain_text("answer 7")
        await expect(page.locator(".match")).to_be_in_viewport()
        await page.get_by_label("Search all chats").fill("nowhere to be found")
        await expect(page.locator("#matches")).to_have_text("Nothing has these words.")
        await page.get_by_label("Search all chats").fill("")
        await expect(page.locator("#chats a")).to_have_count(2)


async def test_the_words_that_were_searched_for_are_marked_in_what_has_them(site: Site, window: Window) -> None:
    site.parley.model.play([Answer("**Boats** and *boating* (c++)")])
    await window.says("What is <b>there</b>?")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    for words, marks in (("boat Boating c++", ["Boat", "boating", "c++"]), ("<b>", ["<b>"])):
        await window.page.get_by_label("Search all chats").fill(words)
        await expect(window.page.locator("#matches mark")).to_have_text(marks)
    await expect(window.page.locator("#matches .snippet")).to_have_text(["What is <b>there</b>?"])


async def test_files_are_shown_before_they_are_sent_and_refused_when_they_are_too_big(
    window: Window, tmp_path: Path
) -> None:
    (tmp_path / "tea.png").write_bytes(picture())
    (tmp_path / "big.bin").write_bytes(bytes(4_000_000))
    await window.page.locator("#text").fill("look")
    await window.page.set_input_files("#files", [tmp_path / "big.bin", tmp_path / "tea.png"])

    await expect(window.page.locator("#box-note")).to_contain_text("big.bin is too big")
    await expect(window.page.locator("#picked .chip-name")).to_have_text("tea.png")
    thumbnail = window.page.locator("#picked img.thumbnail")
    await expect(thumbnail).to_be_visible()
    assert await thumbnail.evaluate("image => image.naturalWidth > 0")
    await expect(window.page.locator("#text")).to_have_value("look")
    await window.page.locator("#text").press("Enter")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await window.page.reload()
    attachment = window.page.locator(".person a.download img")
    await expect(attachment).to_be_visible()
    assert await attachment.evaluate("image => image.decode().then(() => image.naturalWidth > 0)")


async def test_a_file_is_pasted_or_dropped_anywhere(window: Window, site: Site) -> None:
    for event, target, field in (("paste", "#text", "clipboardData"), ("drop", "#welcome", "dataTransfer")):
        await window.page.locator(target).evaluate(
            """(target, [type, field]) => {
                const data = new DataTransfer();
                data.items.add(new File(["oars"], `${type}.txt`));
                const Kind = type === "paste" ? ClipboardEvent : DragEvent;
                target.dispatchEvent(new Kind(type, { [field]: data, bubbles: true, cancelable: true }));
            }""",
            [event, field],
        )
    await expect(window.page.locator("#picked .chip-name")).to_have_text(["paste.txt", "drop.txt"])
    await window.says("two lists")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")

    names = await site.parley.sql("SELECT filename, size_bytes FROM file_records ORDER BY id")
    assert names == [("paste.txt", 4), ("drop.txt", 4)]


async def test_a_printed_chat_is_dark_on_light_and_has_nothing_but_the_chat(window: Window) -> None:
    page = window.page
    await page.get_by_label("Theme").select_option("dark")
    await window.says("a long line. " * 2000)
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await page.emulate_media(media="print")

    for part in ("#sidebar", "#composer", ".agent .acts button"):
        await expect(page.locator(part).first).to_be_hidden()
    assert await page.evaluate("getComputedStyle(document.body).color") == "rgb(31, 36, 34)"
    # No part of it is behind a scrollbar.
    pane = "pane => pane.scrollHeight <= pane.clientHeight && document.body.scrollHeight >= pane.scrollHeight"
    assert await page.locator("#scroll").evaluate(pane)


async def test_keys_stop_an_answer_and_lead_to_the_box(window: Window, site: Site) -> None:
    await window.page.keyboard.press("Tab")
    await expect(window.page.locator("#skip")).to_be_focused()
    await window.page.keyboard.press("Enter")
    await expect(window.page.locator("#text")).to_be_focused()
    assert window.page.url == f"{site.url}/#{window.page.url.partition('#')[2]}"
    _, endless = gated_answer("never")
    site.parley.model.play(endless)
    await window.page.keyboard.type("think hard")
    await window.page.keyboard.press("Enter")
    await site.parley.model.until(1)
    await window.page.keyboard.press("Escape")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await expect(window.page.locator("#text")).to_be_focused()

    site.parley.model.play([Answer("Thought.")])
    await window.page.get_by_role("button", name="Ask again").click()
    await expect(window.answer().locator(".text")).to_have_text("Thought.")
    await expect(window.page.locator(".person .bubble")).to_have_text(["think hard"])
    await expect(window.page.get_by_role("button", name="Ask again")).to_have_count(0)
    await window.page.locator("#text").press("ArrowUp")
    await expect(window.page.locator("#text")).to_have_value("think hard")


OPTIONS = "#palette-list li"


async def picks(page: Page, words: str, *, first: str) -> None:
    """Choose by keys what the list has first for these words."""
    await page.keyboard.press("Control+k")
    await page.keyboard.type(words)
    await expect(page.locator(OPTIONS).first).to_have_text(first)
    await page.keyboard.press("Enter")
    await expect(page.locator("#palette")).to_be_hidden()


async def test_one_list_has_all_that_the_page_does_and_the_chats_by_keys(window: Window) -> None:
    page = window.page
    title = page.locator("#title")
    await window.says("about <b>tea</b>")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await picks(page, "new", first="New chat")
    await expect(page.locator("#welcome")).to_be_visible()
    await window.says("about boats")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await picks(page, "tea about", first="about <b>tea</b>Chat")
    await expect(title).to_have_text("about <b>tea</b>")
    await picks(page, "rename", first="Rename")
    await page.keyboard.type("Pots")
    await page.keyboard.press("Enter")
    await expect(title).to_have_text("Pots")

    await page.locator("#text").focus()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("boats")
    await expect(page.locator(OPTIONS)).to_have_text(["about boatsChat", "Search all chats for “boats”"])
    await examine(page, "palette-1280-light")
    await page.keyboard.press("Escape")
    await expect(page.locator("#text")).to_be_focused()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("boats")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(page.locator("#matches li").first).to_contain_text("boats")


async def test_a_chat_in_which_nothing_was_said_is_not_to_be_exported_or_shared(window: Window) -> None:
    menu = window.page.get_by_role("button", name="This chat")
    await expect(menu).to_be_hidden()
    await window.page.keyboard.press("Control+k")
    await window.page.keyboard.type("export")
    await expect(window.page.locator(OPTIONS)).to_have_text(["Search all chats for “export”"])
    await window.page.keyboard.press("Escape")
    await window.says("about boats")
    await expect(menu).to_be_visible()


async def test_the_list_closes_by_a_click_beside_it_and_its_search_is_seen_on_a_phone(window: Window) -> None:
    page = window.page
    await window.says("about boats")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await page.keyboard.press("Control+k")
    await page.mouse.move(640, 200)
    await page.mouse.down()
    await page.mouse.move(2, 2)
    await page.mouse.up()
    await expect(page.locator("#palette")).to_be_visible()
    await page.mouse.click(2, 2)
    await expect(page.locator("#palette")).to_be_hidden()
    # As a browser does that fills in a form.
    await page.evaluate("document.dispatchEvent(new Event('keydown'))")

    await page.set_viewport_size({"width": 360, "height": 780})
    await expect(page.locator("#sidebar")).to_be_hidden()
    await page.keyboard.press("Control+k")
    await page.keyboard.type("boats")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(page.locator("#search-words")).to_be_focused()
    await expect(page.locator("#matches li").first).to_contain_text("boats")
    await expect(page.locator("#matches li").first).to_be_in_viewport()
    await page.locator("#matches a").first.click()
    await expect(page.locator("#matches li").first).not_to_be_in_viewport()


async def test_the_page_is_accessible_in_light_and_dark_on_desk_and_phone(site: Site, chromium: Browser) -> None:
    tool = ("calculator__calculate", {"expression": "2+2"})
    site.parley.model.play([Answer(tool_calls=[tool]), Answer(ANSWER)])
    async with site.browser("ann") as ann:
        await sends(ann, "What is there for tea?")
    for width in (1280, 360):
        size = {"width": width, "height": 800}
        async with open_window(chromium, site.link("ann"), viewport=size, reduced_motion="reduce") as window:
            page = window.page
            if width == 360:
                await page.locator("#menu").click()
            await page.locator("#chats a").click()
            await expect(page.locator(".hljs-keyword").first).to_be_visible()
            for scheme in SCHEMES:
                await page.emulate_media(color_scheme=scheme)
                await examine(page, f"chat-{width}-{scheme}", *(OF_COLOURS if scheme == "dark" else ()))
            assert await page.evaluate("document.documentElement.scrollWidth") == width
            if width == 360:
                await page.locator("#menu").click()
                await page.get_by_label("Search all chats").fill("tea")
                await expect(page.locator("#matches a").first).to_be_visible()
                await examine(page, "search-360-dark")
                continue
            await page.get_by_role("button", name="This chat").click()
            await examine(page, "menu-1280-dark")
            await page.get_by_role("button", name="Delete").click()
            await examine(page, "delete-1280-dark")


async def examine(page: Page, name: str, *rules: str) -> None:
    """Let axe look at the page, at all or at these rules."""
    assert await list_violations(page, *rules) == [], name
    await take_picture(page, name)


async def test_only_the_owner_is_told_how_a_model_is_set_up(site: Site, chromium: Browser) -> None:
    settings = site.parley.app.settings.model_copy(update={"llm_models": ()})
    async with open_site(site.parley, replace(site.parley.app, settings=settings)) as bare:
        async with bare.browser("ann") as ann:
            await sends(ann, "hello")
        for level, shown, hidden in (("guest", "others", "owner"), ("owner", "owner", "others")):
            await site.parley.sql("UPDATE users SET permission_level = :level", level=level)
            async with open_window(chromium, bare.link("ann")) as window:
                await expect(window.page.locator(f"#no-model-{shown}")).to_be_visible()
                await expect(window.page.locator(f"#no-model-{hidden}")).to_be_hidden()


async def test_a_used_budget_and_a_provider_that_is_down_are_told_with_the_way_on(window: Window, site: Site) -> None:
    async def says(text: str) -> Locator:
        count = await window.page.locator(".message.agent").count()
        await window.says(text)
        await expect(window.page.locator(".message.agent")).to_have_count(count + 1)
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        return window.page.locator(".message.agent").nth(count)

    await says("hello")
    await site.parley.sql("SELECT admin.set_budget('web', 'ann', 0)")
    answer = await says("and now?")
    await expect(answer).to_contain_text("budget")
    await answer.get_by_role("button", name="Ask for more").click()
    await expect(window.answer()).to_contain_text("request")

    await site.parley.sql("SELECT admin.set_budget('web', 'ann', 100000)")
    for level, is_told in (("guest", False), ("owner", True)):
        await site.parley.sql("UPDATE users SET permission_level = :level", level=level)
        site.parley.model.play([Fault(status=401)] * 4)
        answer = await says("are you there?")
        text = await answer.inner_text()
        assert ("openai/stub" in text and "key" in text) is is_told, text


async def test_an_empty_chat_suggests_what_the_persona_of_the_page_does(site: Site, chromium: Browser) -> None:
    wrong = ('"all"', "[1]", '[""]', '["  "]', f'["{"x" * 81}"]', '["a\\nb"]', '["a","b","c","d","e","f","g"]')
    for suggestions in wrong:
        with pytest.raises(IntegrityError, match="personas_suggestions_are_at_most_6_lines"):
            await site.parley.sql(
                "INSERT INTO personas (name, system_prompt, suggestions) VALUES ('x', 'y', CAST(:value AS jsonb))",
                value=suggestions,
            )
    await site.parley.sql(
        "SELECT admin.define_persona('Sage', 'You know tea.', platform => 'web', suggestions => :suggestions)",
        suggestions=["<img src=x onerror=alert(1)>", "Which tea is there?"],
    )
    async with open_window(chromium, site.link("ann")) as window:
        buttons = window.page.locator(".ideas button")
        await expect(buttons).to_have_text(["<img src=x onerror=alert(1)>", "Which tea is there?"])
        await buttons.last.click()
        await expect(window.answer().locator(".text")).to_have_text("You said: Which tea is there?")
