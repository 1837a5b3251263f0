"""Chats that are shown to others by a link."""

from typing import Any
from urllib.parse import urlsplit

import httpx
from playwright.async_api import Browser, expect

from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_chat import sends
from tests.adapters.web.test_page import HOSTILE
from tests.adapters.web.test_page_chats import examine
from tests.standins.openai_api import Answer

NOTE = ("knowledge__remember", {"content": "a private note"})
ANSWER = (
    "Take **oolong**.\n\n![x](http://127.0.0.1/files/1?until=9&signature=ab) [file](/files/2?until=9&signature=cd)\n\n"
)


async def test_a_chat_is_shared_by_its_menu_and_the_link_is_ended(site: Site, chromium: Browser) -> None:
    site.parley.model.play([Answer("On it.", tool_calls=[NOTE]), Answer(ANSWER + HOSTILE), Answer("Later.")])
    async with open_window(chromium, site.link("ann"), viewport={"width": 360, "height": 800}) as window:
        page = window.page
        await window.says("Which tea? <b>" + HOSTILE)
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        await page.get_by_role("button", name="This chat").press("Enter")
        await page.get_by_role("button", name="Share").press("Enter")
        await page.get_by_role("button", name="Make a link").press("Enter")
        link = page.locator("#share-list input")
        await expect(link).to_be_focused()
        await examine(page, "share-360-light")
        # Labels that only screen readers find do not make the page longer than the window.
        assert await page.evaluate("document.documentElement.scrollHeight") == 800
        address = await link.input_value()
        await page.keyboard.press("Escape")
        await window.says("more?")
        await expect(window.answer()).to_contain_text("Later.")
        async with open_window(chromium, address, color_scheme="dark") as reader:
            await expect(reader.page.locator(".text strong").first).to_have_text("oolong")
            await expect(reader.page.locator(".message")).to_have_count(2)
            assert await reader.page.locator("[role=log] :is(img, script, iframe, b, a[href^='/'])").count() == 0
            text = await reader.page.inner_text("main")
            assert not any(
                hidden in text for hidden in ("private note", "signature", "Later", "On it", "remember", "files/")
            )
            assert not [*await reader.context.cookies(), *(url for url in reader.requests if "evil.example" in url)]
            await examine(reader.page, "shared-1280-dark")
        await page.get_by_role("button", name="This chat").click()
        await page.get_by_role("button", name="Share").click()
        await page.get_by_role("button", name="End the link").click()
        await expect(page.locator("#share-list li")).to_have_count(0)
    async with httpx.AsyncClient() as stranger:
        assert (await stranger.get(address)).status_code == 404


async def test_a_shared_chat_names_no_file_and_is_no_longer_than_a_page(site: Site) -> None:
    site.parley.model.play([Answer("A long report."), Answer("Yes.")])
    async with site.browser("ann") as ann, httpx.AsyncClient(base_url=site.url) as reader:
        files = {"files": ("diagnosis.txt", b"ill", "text/plain")}
        await ann.post("/chat/messages", data={"chat": "c1", "event_id": "e0", "content": ""}, files=files)
        for number in range(3):
            await sends(ann, f"more {number}", event_id=f"e{number + 1}")
        await site.parley.sql("UPDATE messages SET content = repeat('z', 900000) WHERE content LIKE 'more%'")
        share = (await ann.post("/page/chats/c1/shares", json={})).json()
        page = (await reader.get(urlsplit(share["url"]).path)).text

    assert "<h1>A chat</h1>" in page
    assert "A long report." in page
    assert "diagnosis" not in page
    assert page.count("z" * 900_000) == 2


async def test_a_link_that_is_wrong_has_ended_or_lost_its_chat_is_like_none(site: Site) -> None:
    async with site.browser("ann") as ann, site.browser("bob") as bob, httpx.AsyncClient(base_url=site.url) as reader:
        for chat in ("c1", "c2", "c3"):
            await sends(ann, f"about {chat}", chat=chat, event_id=chat)
        await sends(ann, "/help", chat="commands", event_id="e4")
        shares: list[Any] = [
            (await ann.post(f"/page/chats/{chat}/shares", json={})).json() for chat in ("c1", "c2", "c3")
        ]
        listed = (await ann.get("/page/shares")).json()["shares"]
        theirs = [
            (await bob.post("/page/chats/c1/shares", json={})).status_code,
            (await bob.delete(f"/page/shares/{shares[0]['id']}")).status_code,
            (await ann.post("/page/chats/commands/shares", json={})).status_code,
            (await ann.post("/page/chats/c1/shares", json={"days": 91})).status_code,
            len((await bob.get("/page/shares")).json()["shares"]),
        ]
        paths = [urlsplit(share["url"]).path for share in shares]
        open_page = await reader.get(paths[0])
        await site.parley.sql("UPDATE web_shares SET expires_at = now() WHERE id = :id", id=shares[0]["id"])
        await ann.delete("/page/chats/c2")
        await ann.delete(f"/page/shares/{shares[2]['id']}")
        token = paths[0].rpartition("/")[2]
        wrong = [await reader.get(f"/shared/{key}") for key in ("x", f"9{token}", f"{token[:-1]}x", "é", "1.")]
        ended = [await reader.get(path) for path in paths]
        again = await ann.delete(f"/page/shares/{shares[2]['id']}")

    assert [share["title"] for share in listed] == ["about c3", "about c2", "about c1"]
    assert theirs == [404, 404, 404, 400, 0]
    assert open_page.status_code == 200
    assert "You said: about c1" in open_page.text
    assert (open_page.headers["x-robots-tag"], open_page.headers["cache-control"]) == ("noindex, nofollow", "no-store")
    assert "connect-src 'none'" in open_page.headers["content-security-policy"]
    assert "set-cookie" not in open_page.headers
    assert {(page.status_code, page.text) for page in (*wrong, *ended)} == {(404, wrong[0].text)}
    assert again.status_code == 404
