"""One-time links: whom they sign in, and when a browser is asked first."""

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from msgspec.structs import replace
from playwright.async_api import Browser, expect

from adapters.web import one_time_link
from adapters.web.login.sessions import COOKIE
from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import BROWSER, BY_HAND, TOKEN, Site, open_site
from tests.adapters.web.test_messages import refusal
from tests.support.login import find_link, look, open_by_hand

FROM_ELSEWHERE: list[dict[str, str]] = [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {}]


def form_of(page: str) -> dict[str, str]:
    """Return the hidden fields of a page's form."""
    return {name: unescape(value) for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)}


async def as_whom(client: httpx.AsyncClient) -> str:
    """Return who is signed in, as the command /me says it."""
    reply = await client.post("/chat/commands", json={"chat": "c1", "command": "/me"}, headers=BROWSER)
    return str(reply.json().get("content", reply.text)).partition(" (")[0]


async def test_a_link_that_another_page_leads_to_asks_and_changes_nothing(site: Site) -> None:
    async with site.browser("ann") as ann, httpx.AsyncClient(base_url=site.url) as nobody:
        # From our own origin, too: a chat that somebody shows there may hold a link.
        for headers in (*FROM_ELSEWHERE, BROWSER):
            form = await nobody.get(site.link("mallory"), headers=headers)
            assert "Go on as a new person?" in form.text
            assert "set-cookie" not in form.headers
        # Also where nothing says where it comes from, and in whichever way: a session is not replaced by a GET.
        for headers in (*FROM_ELSEWHERE, BY_HAND, BROWSER):
            form = await ann.get(site.link("mallory"), headers=headers)
            assert "You are signed in as ann." in form.text
            assert "set-cookie" not in form.headers
        assert "form-action 'self'" in form.headers["content-security-policy"]
        assert await as_whom(ann) == "You are ann"
    # Nobody has said yes: there is no such person.
    assert await site.parley.value("SELECT count(*) FROM user_platform_links WHERE platform_user_id = 'mallory'") == 0


async def test_a_yes_signs_in_as_the_person_that_was_named_and_ends_the_session_before(site: Site) -> None:
    async with site.browser("bob"):
        pass
    async with site.browser("ann") as ann:
        token = ann.cookies[COOKIE]
        fields = form_of((await ann.get(site.link("bob"), headers=BY_HAND)).text)
        del ann.headers["Sec-Fetch-Site"]
        for headers in (*FROM_ELSEWHERE, {"Sec-Fetch-Site": "none"}, {"Origin": "null"}):
            assert refusal(await ann.post("/login", data=fields, headers=headers)).startswith("403 wrong_origin")
        # The form was shown when somebody else was signed in, or nobody: it does not speak for who is now.
        stale = await ann.post("/login", data=fields | {"instead_of": ""}, headers=BROWSER)
        entered = await ann.post("/login", data=fields, headers=BROWSER)
        again = await ann.post("/login", data=fields, headers=BROWSER)
        name = await as_whom(ann)
        old = httpx.Cookies({COOKIE: token})
    async with httpx.AsyncClient(base_url=site.url, cookies=old, headers=BROWSER) as thief:
        ended = refusal(await thief.get("/page/chats"))

    assert "You are signed in as ann." in stale.text
    assert (entered.status_code, name) == (200, "You are bob")
    assert "Welcome back" in again.text
    assert ended.startswith("401 no_session")


async def test_a_program_that_speaks_for_people_gets_no_link(site: Site) -> None:
    await site.posts("hello")
    names: list[dict[str, Any]] = [
        {},
        {"platform": "discord"},
        {"platform": "http"},
        {"platform": "web", "platform_user_id": "owner"},
        {"platform": "terminal"},
    ]
    for fields in names:
        reply = (await site.posts("/login", **fields)).json()["content"]
        assert reply.startswith("I give out links to my page only to people"), fields
    async with site.browser("ann") as ann:
        assert (
            (await ann.post("/chat/commands", json={"chat": "c", "command": "/login"}))
            .json()["content"]
            .startswith("You are signed in here already")
        )


async def test_a_link_of_another_platform_s_account_opens_its_person(site: Site) -> None:
    await site.posts("hello", platform_username="Ann")
    link = find_link(site, one_time_link(site.parley.app, "ann", "test", way="command"))
    key = parse_qs(urlsplit(link).query)["key"][0]
    payload, _, signature = key.rpartition(".")
    other = "B" if signature[0] == "A" else "A"
    for forged in (f"{payload}.{other}{signature[1:]}", f"x{key}", key.replace(".", "", 1), TOKEN):
        assert (await open_by_hand(f"{site.url}/?key={forged}")).status_code == 401
    entered = await open_by_hand(link)
    async with httpx.AsyncClient(base_url=site.url, cookies=entered.cookies, headers=BROWSER) as ann:
        assert await as_whom(ann) == "You are Ann"
    used = await open_by_hand(link)
    second = await open_by_hand(find_link(site, one_time_link(site.parley.app, "ann", "test", way="command")))

    assert (entered.status_code, used.status_code, second.status_code) == (200, 401, 200)
    assert await site.parley.value("SELECT count(*) FROM users") == 1
    assert await site.parley.value("SELECT count(*) FROM user_platform_links WHERE platform = 'web'") == 1
    assert [row[0] for row in await site.parley.sql("SELECT login FROM web_sessions")] == ["command", "command"]


async def test_a_browser_asks_and_goes_on_as_the_other_person_and_signs_out(site: Site, chromium: Browser) -> None:
    settings = site.parley.app.settings.model_copy(update={"web_guests": True, "oidc_issuer": "https://login.example"})
    app = replace(site.parley.app, settings=settings)
    async with (
        site.browser("bob"),
        open_site(site.parley, app) as own,
        open_window(chromium, own.link("ann")) as window,
    ):
        page = window.page
        await page.goto(own.link("bob"))
        assert await look(page, "login-question") == []
        await page.get_by_role("button", name="Go on as bob").click()
        await expect(page.locator("#welcome h2")).to_be_visible()
        await page.goto(f"{own.url}/me")
        await expect(page.locator(".who")).to_contain_text("bob")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", name="You are signed out")).to_be_visible()
        await page.goto(own.url)
        assert await look(page, "login-entrance") == []
        await page.get_by_role("button", name="Go on as a guest").click()
        await expect(page.locator("#welcome h2")).to_have_text("What can I do for you?")
        window.complaints = [complaint for complaint in window.complaints if "status of 401" not in complaint]
