"""The chat page in a real browser."""

import asyncio
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect

from tests.adapters.web.browser import Window, open_window
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import gated_answer
from tests.support.delegating import add_agent, ask, play
from tests.support.eventually import eventually

# A model chooses arguments of any shape.
ODD = r'{"toString": 1, "name": "\u202e<b>x"}'
HOSTILE = """<img src=x onerror="document.title='owned'"> <script>document.title='owned'</script>
[click](javascript:document.title='owned') [data](data:text/html,x) ![pixel](https://evil.example/pixel.png)
<a href="https://evil.example">raw</a> `<b>` **<i>bold</i>**

| <u>a</u> | b |
|---|---|
| <s>c</s> | d |

```html
<script>document.title='owned'</script>
```"""


async def test_a_link_leads_to_the_page_once_and_leaves_no_key_behind(site: Site, chromium: Browser) -> None:
    link = site.link()
    async with open_window(chromium, link) as window:
        await expect(window.page.locator("#welcome h2")).to_have_text("What can I do for you?")
        assert "key=" not in window.page.url
        assert all(request.startswith(site.url) for request in window.requests)

    context = await chromium.new_context()
    page = await context.new_page()
    await page.goto(link)
    await expect(page.locator("h1")).to_have_text("This link has been used or is too old")
    await context.close()


async def test_live_text_is_shown_and_stays_after_a_reload(window: Window, site: Site) -> None:
    result, go_on = asyncio.Event(), asyncio.Event()

    async def two_steps(_body: dict[str, Any], number: int) -> Answer:
        if number > 1:
            await go_on.wait()
            return Answer("All **done**.")
        remember = ("knowledge__remember", {"content": "Ann likes oolong."})
        return Answer("Let me note that first.", tool_calls=[remember], chunk_chars=4, end=result)

    site.parley.model.play(two_steps)
    await window.says("I like oolong")
    answer = window.answer()
    await expect(answer.locator(".text")).to_contain_text("Let me")
    await expect(window.page.locator("#stop")).to_be_visible()
    result.set()
    await expect(answer.locator(".tool-name")).to_have_text("Remembered “Ann likes oolong.”")
    await expect(answer.locator(".tool-state")).to_have_class("tool-state done")
    await expect(answer.locator(".thought")).to_have_text("Let me note that first.")
    go_on.set()
    await expect(answer.locator(".text strong")).to_have_text("done")
    await expect(answer).to_have_attribute("aria-busy", "false")
    await expect(window.page.locator("#stop")).to_be_hidden()
    await answer.locator("summary").click()
    await expect(answer.locator("details pre").first).to_contain_text("Ann likes oolong.")

    await window.page.reload()

    await expect(window.page.locator(".person .bubble")).to_have_text("I like oolong")
    await expect(window.answer().locator(".text")).to_have_text("All done.")
    await expect(window.answer().locator(".tool-state")).to_have_class("tool-state done")
    await expect(window.page.locator("#chats a")).to_have_text("I like oolong")

    address = "https://town.example/bridge"
    for role, content in (
        ("call", f'{{"url": "{address}", "content": {ODD}}}'),
        ("result", '{"title": "The <b>bridge</b>"}'),
    ):
        await site.parley.sql(f"UPDATE messages SET content = :content WHERE role = 'tool_{role}'", content=content)  # noqa: S608  # our own words
    await window.page.reload()
    await expect(window.answer().locator(f".sources a[href='{address}']")).to_have_text("The <b>bridge</b>")
    await expect(window.answer().locator(".tool-name")).to_have_text('Remembered “{"toString":1,"name":" <b>x"}”')


async def test_an_agent_that_is_asked_is_shown_by_its_name_and_its_task(window: Window, site: Site) -> None:
    await add_agent(site.parley, "scout")
    play(
        site.parley.model,
        asker=[Answer(tool_calls=[ask("scout", "Find the <b>key</b>.")]), "Done."],
        scout=["Under the mat."],
    )
    await window.says("where is the key?")

    for _ in range(2):
        answer = window.answer()
        await expect(answer.locator(".text")).to_have_text("Done.")
        await expect(answer.locator(".tool-name")).to_have_text("Asked scout")
        await expect(answer.locator(".tool-preview")).to_have_text("Find the <b>key</b>.")
        await expect(answer.locator(".tool-state")).to_have_class("tool-state done")
        # What the agent was told is no message of this chat.
        await expect(window.page.locator(".message")).to_have_count(2)
        await window.page.reload()

    # Of a tool that has no words, as those of other servers, the name tells.
    await site.parley.sql("UPDATE messages SET tool_name = 'acme.look_<b>up' WHERE tool_name IS NOT NULL")
    await window.page.reload()
    await expect(window.answer().locator(".tool-name")).to_have_text("Used look <b>up (acme)")


async def test_html_of_people_and_models_is_shown_as_text(window: Window, site: Site) -> None:
    site.parley.model.play([Answer(HOSTILE)])

    await window.says(HOSTILE)
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    for reloaded in (False, True):
        if reloaded:
            await window.page.reload()
            await expect(window.answer().locator(".facts")).to_be_visible()
        log = window.page.locator("#log")
        await expect(log).to_contain_text("<img src=x onerror=")
        await expect(log.locator("img, script, iframe, i, b, u, s")).to_have_count(0)
        links = await log.locator("a").evaluate_all("links => links.map(link => link.href)")
        assert links == ["https://evil.example/pixel.png", "https://evil.example/"]
        rel = await log.locator("a").first.get_attribute("rel")
        assert rel == "noopener noreferrer nofollow"
    assert await window.page.title() != "owned"
    assert not any("evil.example" in request for request in window.requests)


async def test_files_go_up_and_come_down(window: Window, site: Site, tmp_path: Path) -> None:
    document = {"title": "Tea notes", "content": "# Oolong", "format": "md"}
    site.parley.model.play([Answer(tool_calls=[("file_manager__create_document", document)]), Answer("Here it is.")])
    (tmp_path / "list.txt").write_text("oolong")
    await window.page.set_input_files("#files", [tmp_path / "list.txt"])
    await expect(window.page.locator("#picked .chip-name")).to_have_text("list.txt")
    await expect(window.page.locator("#picked .chip-size")).to_have_text("6 B")

    await window.says("make notes of this")
    link = window.answer().locator("a.download")
    await expect(link).to_be_visible()
    async with window.page.expect_download() as download_info:
        await link.click()
    download = await download_info.value

    assert await download.failure() is None
    assert "# Oolong" in (await download.path()).read_text()
    assert await site.parley.value("SELECT count(*) FROM file_records WHERE filename = 'list.txt'") == 1
    await expect(window.page.locator("#picked")).to_be_empty()
    await window.page.reload()
    await expect(window.page.locator(".person .chip-name")).to_have_text("list.txt")
    await expect(window.page.locator(".person .bubble")).to_have_text("make notes of this")


async def test_stop_ends_an_answer_and_what_was_written_meanwhile_is_answered_too(window: Window, site: Site) -> None:
    go_on = asyncio.Event()

    async def patient(_body: dict[str, Any], number: int) -> Answer:
        await go_on.wait()
        return Answer(f"Answer {number}.")

    site.parley.model.play(patient)
    await window.says("think hard")
    await site.parley.model.until(1)
    await window.page.locator("#stop").click()
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await expect(window.page.locator("#stop")).to_be_hidden()

    await window.says("one")
    await site.parley.model.until(2)
    for text in ("two", "three"):
        await window.says(text)
    await eventually(lambda: site.parley.value("SELECT count(*) = 4 FROM inbox"))
    go_on.set()

    await expect(window.page.locator(".message.agent")).to_have_count(3)
    await expect(window.answer().locator(".text")).to_have_text("Answer 3.")
    await expect(window.page.locator("#stop")).to_be_hidden()
    assert await window.page.locator("#log > *").evaluate_all("all => all.map(each => each.className)") == [
        "message person",
        "message agent stopped",
        "message person",
        "message agent",
        "message person",
        "message person",
        "message agent",
    ]


async def test_a_reconnect_continues_without_duplicates(window: Window, site: Site) -> None:
    window.expected_complaint = "ERR_CONNECTION_RESET"
    go_on, patient = gated_answer("Here after all.")
    site.parley.model.play(patient)
    # The message arrives, and the connection is cut before the first event.
    lost = asyncio.Event()

    async def cut(route: Any) -> None:
        if not lost.is_set():
            lost.set()
            call = asyncio.create_task(route.fetch())
            await site.parley.model.until(1)
            await route.abort("connectionreset")
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            return
        await route.continue_()

    await window.page.route("**/chat/messages", cut)
    await window.says("hello")
    await asyncio.wait_for(lost.wait(), 20)
    go_on.set()

    await expect(window.answer().locator(".text")).to_have_text("Here after all.")
    await expect(window.page.locator(".message")).to_have_count(2)
    await expect(window.page.locator("#status")).to_be_hidden()
    assert await site.parley.value("SELECT count(*) FROM turns") == 1


async def test_a_reload_in_the_middle_of_an_answer_goes_on_with_it(window: Window, site: Site) -> None:
    go_on, patient = gated_answer("Worth the wait.")
    site.parley.model.play(patient)
    await window.says("hello")
    await site.parley.model.until(1)
    await window.page.reload()
    await expect(window.page.locator(".person .bubble")).to_have_text("hello")
    await expect(window.page.locator("#stop")).to_be_visible()
    go_on.set()

    await expect(window.answer().locator(".text")).to_have_text("Worth the wait.")
    await expect(window.page.locator(".message")).to_have_count(2)


async def test_chats_are_kept_apart_and_can_be_opened_again(window: Window) -> None:
    window.expected_complaint = "400 (Bad Request)"
    await window.says("about tea")
    await expect(window.answer().locator(".text")).to_have_text("You said: about tea")
    await window.page.locator("#new-chat").click()
    await expect(window.page.locator("#welcome")).to_be_visible()
    await window.page.locator(".ideas button", has_text="/help").click()
    await expect(window.answer().locator(".text")).to_contain_text("/help")
    await window.says("about pots")
    await expect(window.answer().locator(".text")).to_have_text("You said: about pots")

    await window.page.locator("#chats a", has_text="about tea").click()

    # Until it is open, the other one is there.
    await expect(window.page.locator(".message")).to_have_count(2)
    await expect(window.page.locator(".person .bubble")).to_have_text("about tea")

    # A refusal is shown in place of the answer.
    await window.says("x" * 100_001)
    await expect(window.page.locator(".fault")).to_contain_text("content: string should have at most 100000 characters")


async def test_the_page_fits_a_phone_and_the_dark_mode(site: Site, chromium: Browser) -> None:
    site.parley.model.play([Answer("A " + "very_long_word" * 20 + "\n\n```\n" + "code " * 60 + "\n```\n" + HOSTILE)])
    phone = {"width": 390, "height": 800}
    async with open_window(chromium, site.link("ann"), viewport=phone, color_scheme="dark") as window:
        await expect(window.page.locator("#sidebar")).to_be_hidden()
        await window.says("hello " * 60)
        await expect(window.answer().locator(".facts")).to_be_visible()
        await window.page.locator("#menu").click()
        await expect(window.page.locator("#chats a")).to_be_in_viewport()

        width = await window.page.evaluate("document.documentElement.scrollWidth")
        ground = await window.page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert width == 390
    assert ground == "rgb(21, 25, 23)"


async def test_a_credential_is_entered_in_a_field_that_hides_it(window: Window, site: Site) -> None:
    await window.says("/credential set pms")
    field = window.answer().get_by_label("The password or key for pms")
    assert await field.get_attribute("type") == "password"
    await field.fill("short")
    await window.page.keyboard.press("Enter")
    await expect(window.answer().get_by_role("status")).to_contain_text("at least 8 letters and digits")
    await field.fill("lantern-4711-wagon")
    await window.page.keyboard.press("Enter")
    await expect(window.answer().get_by_role("status")).to_contain_text("I keep your credential pms encrypted")
    await expect(field).to_have_count(0)
    assert await site.parley.value("SELECT name FROM credentials") == "pms"
    for line in ("/credental set pms lantern-4712-wagon", "/\u0441redential set pms lantern-4712-wagon"):
        await window.says(line)
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await window.page.reload()
    await expect(window.page.locator(".bubble").get_by_text("/credential set pms [removed]")).to_have_count(2)
    replies = await site.parley.sql("SELECT json_agg(web_replies) FROM web_replies")
    messages = await site.parley.sql("SELECT json_agg(inbox) FROM inbox")
    assert "4712" not in f"{replies}{messages}{[request.body for request in site.parley.model.requests]}"
    # The browser notes each answer with an error.
    window.complaints.clear()


async def remind(site: Site, chat: str = "", content: str = "Feed the bikes.") -> None:
    """Let a reminder of the only person be due in this chat, or in their only one."""
    await site.parley.sql(
        "INSERT INTO scheduled_jobs (user_id, conversation_id, adapter, platform_user_id, content, requires, starts_at,"
        " next_due_at) SELECT users.id, conversations.id, 'web', 'ann', :content, 'guest', now(), now()"
        " FROM users, conversations WHERE platform_channel_id LIKE '%' || :chat",
        chat=chat,
        content=content,
    )


async def test_a_due_reminder_appears_without_a_reload(window: Window, site: Site) -> None:
    await window.says("hello")
    await expect(window.answer().locator(".text")).to_have_text("You said: hello")

    await remind(site)

    await expect(window.answer().locator(".text")).to_have_text("Reminder: Feed the bikes.")
    await window.page.reload()
    await expect(window.answer().locator(".text")).to_have_text("Reminder: Feed the bikes.")
    await expect(window.page.locator(".message.agent")).to_have_count(2)


async def test_who_reads_the_end_stays_there_and_who_has_scrolled_up_stays_where_they_read(
    window: Window, site: Site
) -> None:
    page = window.page
    long = "\n\n".join(f"Line {number} of many." for number in range(60))
    gate, late = gated_answer(long)
    site.parley.model.play([Answer(long, chunk_chars=10_000)])
    await window.says("all at once")
    acts = window.answer().locator(".acts")
    await expect(acts).to_be_in_viewport()

    site.parley.model.play(late)
    await window.says("slowly")
    await expect(window.answer()).to_be_in_viewport()
    scroll = page.locator("#scroll")
    end = await scroll.evaluate("pane => pane.scrollTop")
    await scroll.hover()
    # However little it is.
    await page.mouse.wheel(0, -60)
    await expect(scroll).to_have_js_property("scrollTop", end - 60)
    top = page.locator(".agent").first
    place = await top.evaluate("answer => answer.getBoundingClientRect().top")
    gate.set()
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await expect(window.answer().locator(".acts")).not_to_be_in_viewport()
    assert await top.evaluate("answer => answer.getBoundingClientRect().top") == place
