"""What the page shows of what was said before, and of what other windows say, in a real browser."""

import asyncio

from playwright.async_api import Browser, FilePayload, expect

from tests.adapters.web.browser import Window, open_window
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer
from tests.support.parley import Parley

# A chat of so many turns as it is when retention has deleted all events, and chats with one turn each.
LONG_CHAT = """
WITH person AS (
    INSERT INTO users (display_name) VALUES ('Ann') RETURNING id
), link AS (
    INSERT INTO user_platform_links (user_id, platform, platform_user_id) SELECT id, 'web', 'ann' FROM person
), places AS (
    INSERT INTO conversations (platform, platform_channel_id, is_direct, user_id, last_active_at)
    SELECT 'web', 'ann/' || name, true, person.id, now() - age * interval '1 day'
    FROM person, (
        SELECT 'long' AS name, 0 AS age UNION ALL SELECT 'c' || n, n FROM generate_series(1, :chats) AS n
    ) AS chat
    RETURNING id, platform_channel_id, user_id
), drawn AS (
    SELECT nextval('turns_id_seq') AS turn_id, n, places.id AS place_id, user_id
    FROM places, generate_series(1, CASE WHEN platform_channel_id = 'ann/long' THEN :turns ELSE 1 END) AS n
    ORDER BY n
), begun AS (
    INSERT INTO turns (id, conversation_id, user_id, status, finished, finished_at, model)
    SELECT turn_id, place_id, user_id, 'answered', true, now(), 'openai/stub' FROM drawn ORDER BY turn_id
)
INSERT INTO messages (conversation_id, turn_id, seq, user_id, role, content)
SELECT place_id, turn_id, seq, user_id, CASE seq WHEN 0 THEN 'user' ELSE 'assistant' END,
       CASE seq WHEN 0 THEN 'question ' || n ELSE 'answer ' || n || repeat(E'\\n\\nMore of it.', 3) END
FROM drawn, generate_series(0, 1) AS seq
"""


async def write_long_chat(parley: Parley, *, turns: int, chats: int) -> None:
    await parley.sql(LONG_CHAT, turns=turns, chats=chats)


async def test_a_chat_of_2000_messages_opens_at_its_end_and_goes_back_without_end(
    site: Site, chromium: Browser
) -> None:
    await write_long_chat(site.parley, turns=1000, chats=120)
    async with open_window(chromium, site.link("ann")) as window:
        page = window.page
        await page.locator("#chats a").first.click()
        await expect(page.locator(".person .bubble").last).to_have_text("question 1000")
        await expect(window.answer()).to_be_in_viewport()
        assert await page.locator(".message").count() == 60

        # What is read stays where it is while earlier messages come before it.
        await page.locator("#scroll").evaluate("pane => { pane.scrollTop = 300 }")
        bubble = page.locator(".bubble", has_text="question 972")
        before = await bubble.evaluate("bubble => bubble.getBoundingClientRect().top")
        await expect(page.locator(".bubble", has_text="question 941")).to_be_attached()
        assert abs(await bubble.evaluate("bubble => bubble.getBoundingClientRect().top") - before) < 2
        messages = page.locator(".message")
        while (count := await messages.count()) < 2000:
            await page.locator("#scroll").evaluate("pane => { pane.scrollTop = 0 }")
            await expect(messages).not_to_have_count(count, timeout=30_000)
        await expect(messages).to_have_count(2000)
        await expect(page.locator(".bubble").first).to_have_text("question 1")
        await expect(page.locator("#earlier")).to_be_hidden()

        await expect(page.locator("#chats a")).to_have_count(50)
        chats = page.locator("#chats a")
        while (count := await chats.count()) < 121:
            await page.locator("#chats").evaluate("chats => chats.lastElementChild.scrollIntoView()")
            await page.locator("#more-chats").evaluate("button => button.scrollIntoView()")
            await expect(chats).not_to_have_count(count, timeout=30_000)
        await expect(chats).to_have_count(121)


async def test_text_so_far_arrives_after_a_reload_and_in_another_window(window: Window, site: Site) -> None:
    go_on = asyncio.Event()
    site.parley.model.play([Answer("It begins like this. ", chunk_chars=4, end=go_on), Answer("So it goes on.")])
    await window.says("tell me")
    text = window.answer().locator(".text")
    await expect(text).to_contain_text("like")
    await window.page.reload()
    await expect(text).to_contain_text("It begins like")

    second = await window.context.new_page()
    await second.goto(window.page.url)
    other = second.locator(".message.agent").last
    await expect(other.locator(".text")).to_contain_text("It begins like")
    go_on.set()
    for answer in (window.answer(), other):
        await expect(answer).to_have_attribute("aria-busy", "false")
        await expect(answer.locator(".text")).to_have_text("It begins like this.")

    # What either window says is followed by the other one, and so are commands.
    await window.says("and then?")
    await window.page.bring_to_front()
    await expect(window.answer().locator(".text")).to_have_text("So it goes on.")
    await expect(window.page.locator(".message")).to_have_count(4)
    await window.says("/help")
    await expect(window.page.locator(".message")).to_have_count(6)
    await second.bring_to_front()
    await expect(second.locator(".person .bubble").nth(1)).to_have_text("and then?")
    await expect(second.locator(".message")).to_have_count(6)
    await second.reload()
    await expect(second.locator(".message")).to_have_count(6)
    await expect(second.locator(".person .bubble").last).to_have_text("/help")
    await expect(second.locator(".message.agent").last).to_contain_text("/memory")


async def test_what_was_begun_to_write_is_kept_for_each_chat(window: Window, site: Site) -> None:
    window.expected_complaint = "400 (Bad Request)"
    box = window.page.locator("#text")
    await window.says("about tea")
    await expect(window.answer().locator(".text")).to_have_text("You said: about tea")
    await box.fill("and about po")
    await window.page.set_input_files("#files", FilePayload(name="pots.txt", mimeType="text/plain", buffer=b"two"))
    await window.page.locator("#new-chat").click()
    await expect(box).to_have_value("")
    picked = window.page.locator("#picked .chip-name")
    await expect(picked).to_have_count(0)
    await box.fill("something else")
    await window.page.locator("#chats a", has_text="about tea").click()
    await expect(box).to_have_value("and about po")
    await expect(picked).to_have_text(["pots.txt"])
    await window.page.reload()
    await expect(box).to_have_value("and about po")
    # A browser that has no room left for a draft takes the message all the same.
    await window.page.evaluate("localStorage.setItem('parley.full', 'x'.repeat(5 * 1024 * 1024 - 1000))")
    await box.fill("and about pots" + "." * 1000)
    await box.press("Enter")
    await expect(box).to_have_value("")
    await expect(window.answer()).to_contain_text("and about pots...")
    await window.page.evaluate("localStorage.removeItem('parley.full')")

    # What is refused is in the box again.
    await box.fill("x" * 100_001)
    await box.press("Enter")
    await expect(window.page.locator(".fault")).to_contain_text("at most 100000 characters")
    assert len(await box.input_value()) == 100_001


async def test_a_message_that_never_left_is_in_the_box_when_the_page_comes_back(window: Window, site: Site) -> None:
    window.expected_complaint = "ERR_INTERNET_DISCONNECTED"
    box = window.page.locator("#text")
    await window.says("about tea")
    await expect(window.answer().locator(".text")).to_have_text("You said: about tea")
    address = window.page.url
    await window.context.set_offline(True)
    await window.says("and about pots")
    await expect(window.page.locator("#status")).to_contain_text("kept here")
    await window.page.goto("about:blank")
    await window.context.set_offline(False)
    await window.page.goto(address)
    await expect(box).to_have_value("and about pots")
    await box.press("Enter")
    await expect(window.answer().locator(".text")).to_have_text("You said: and about pots")
    await window.page.reload()
    await expect(window.page.locator(".person .bubble")).to_have_text(["about tea", "and about pots"])
    await expect(box).to_have_value("")


async def test_no_draft_is_left_of_an_erased_chat_or_for_another_person(window: Window, site: Site) -> None:
    box = window.page.locator("#text")
    await window.says("about tea")
    await expect(window.answer().locator(".text")).to_have_text("You said: about tea")
    await box.fill("about my secret")
    await window.page.get_by_role("button", name="This chat").click()
    await window.page.get_by_role("button", name="Delete").click()
    await window.page.get_by_label("Delete this chat?").get_by_role("button", name="Delete").click()
    await expect(box).to_have_value("")
    assert "secret" not in await window.page.evaluate("JSON.stringify(localStorage)")
    await box.fill("my own thoughts")
    chat = window.page.url.partition("#")[2]
    await window.page.goto(site.link("bob"))
    await window.page.get_by_role("button", name="Go on as").click()
    await expect(window.page.locator("#welcome")).to_be_visible()
    await window.page.goto(f"{site.url}/#{chat}")
    await expect(window.page.locator("#welcome")).to_be_visible()
    await expect(box).to_have_value("")
    assert "thoughts" not in await window.page.evaluate("JSON.stringify(localStorage)")
