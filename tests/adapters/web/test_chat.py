"""What the chat page asks for, and who may ask: links that work once, sessions, the page's own origin."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from msgspec.structs import replace

from adapters.web import one_time_link
from tests.adapters.web.conftest import BROWSER, BY_HAND, NO_CERTIFICATES, Site, open_site
from tests.adapters.web.test_messages import frames, refusal
from tests.standins.openai_api.script import gated_answer
from tests.support.clocks import SetClock
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley


async def sends(browser: httpx.AsyncClient, content: str, chat: str = "c1", **extras: Any) -> httpx.Response:
    """Send a message as the page does, without files."""
    fields = {"chat": chat, "event_id": extras.pop("event_id", "e1"), "content": content} | extras
    return await browser.post("/chat/messages", files={key: (None, value) for key, value in fields.items()})


async def test_a_link_opens_the_page_once(site: Site) -> None:
    link = site.link("ann")
    async with httpx.AsyncClient(headers=BY_HAND) as first, httpx.AsyncClient(headers=BY_HAND) as second:
        entered = await first.get(link)
        page = await first.get(site.url)
        response = await second.get(link)
        again = await first.get(link)

    assert entered.status_code == 200
    cookie = entered.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=2592000"))
    assert "<textarea" in page.text
    assert response.status_code == 401
    assert "This link has been used or is too old" in response.text
    assert "set-cookie" not in response.headers
    assert again.status_code == 200


async def test_asking_for_the_head_of_a_link_does_not_use_it(site: Site) -> None:
    link = site.link()
    async with httpx.AsyncClient(headers=BY_HAND) as client:
        await client.head(link)
        assert (await client.get(link)).status_code == 200


async def test_two_browsers_at_once_do_not_share_a_link(site: Site) -> None:
    link = site.link()

    async def opens() -> int:
        async with httpx.AsyncClient(headers=BY_HAND) as client:
            return (await client.get(link)).status_code

    assert sorted(await asyncio.gather(*(opens() for _ in range(8)))) == [200] + [401] * 7


async def test_no_line_with_a_credential_is_kept_with_the_chat(site: Site) -> None:
    async with site.browser("ann") as ann:
        for number, slash in enumerate(("/", " /", "\u200b/", "\u202e/\u200b", "\uff0f", "/ ")):
            response = await sends(ann, f"{slash}credential set pms lantern-4711-wagon", event_id=f"e{number}")
            assert "I keep your credential pms encrypted" in response.text
        assert await site.parley.value("SELECT count(*) FROM web_replies") == 0


async def test_a_made_up_link_is_refused_kindly(site: Site) -> None:
    async with httpx.AsyncClient(verify=NO_CERTIFICATES) as client:
        for key in ("", "x", "e30.e30", "é" * 10, "a." * 5000):
            page = await client.get(site.url, params={"key": key})

            assert page.status_code == 401, key
            assert "A fresh link is printed by the command: parley link" in page.text


async def test_a_link_lives_for_ten_minutes(parley: Parley) -> None:
    async with open_site(parley) as site:
        old, fresh = site.link(), site.link()
    for moved, link, status in ((timedelta(minutes=9), fresh, 200), (timedelta(minutes=11), old, 401)):
        async with (
            open_site(parley, replace(parley.app, clock=SetClock(datetime.now(UTC) + moved))) as later,
            httpx.AsyncClient(headers=BY_HAND) as stranger,
        ):
            assert (await stranger.get(later.url + "/?" + link.partition("?")[2])).status_code == status


async def test_without_a_session_there_is_a_kind_page_and_nothing_else(site: Site) -> None:
    async with httpx.AsyncClient(base_url=site.url, headers=BROWSER) as stranger:
        page = await stranger.get("/")
        assert page.status_code == 401
        assert "A fresh link is printed by the command: parley link" in page.text
        for method, path in (
            ("GET", "/page/chats"),
            ("GET", "/page/chats/c1/messages"),
            ("GET", "/page/chats/c1/arrivals"),
            ("PATCH", "/page/chats/c1"),
            ("DELETE", "/page/chats/c1"),
            ("GET", "/page/search"),
            ("GET", "/chat/events"),
            ("POST", "/chat/messages"),
            ("POST", "/chat/stop"),
        ):
            assert refusal(await stranger.request(method, path)).startswith("401 no_session")


async def test_another_site_s_page_may_not_ask(site: Site) -> None:
    foreign: list[dict[str, str]] = [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {},
    ]
    async with site.browser() as browser:
        del browser.headers["Sec-Fetch-Site"]
        for headers in foreign:
            assert refusal(await browser.post("/chat/stop", headers=headers)).startswith("403 wrong_origin")
            assert refusal(await browser.delete("/page/chats/c1", headers=headers)).startswith("403 wrong_origin")
            if headers:
                assert refusal(await browser.get("/page/chats", headers=headers)).startswith("403 wrong_origin")
        # Without TLS a browser names neither with what it only reads.
        assert (await browser.get("/page/chats")).status_code == 200
        own = await browser.post("/chat/stop", json={"chat": "c1"}, headers={"Origin": site.url})
        assert own.json() == {"stopped": False}


async def test_the_page_runs_nothing_but_its_own_files(site: Site) -> None:
    async with site.browser() as browser:
        page = await browser.get("/")
        script = await browser.get("/static/chat.js")
        unchanged = await browser.get("/static/chat.js", headers={"If-None-Match": f'"old", {script.headers["etag"]}'})

    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert unchanged.status_code == 304
    assert (await site.client.get("/static/../app.py")).status_code == 404


async def test_a_message_of_the_page_is_answered_with_events(site: Site) -> None:
    async with site.browser("ann") as browser:
        events = frames((await sends(browser, "hello")).text)
        again = frames((await browser.get("/chat/events", params={"event_id": "e1"})).text)

    assert events[-2][1]["content"] == "You said: hello"
    assert [event for event in events if event[0] != "text_delta"] == again
    rows = await site.parley.sql("SELECT adapter, platform, platform_user_id, is_direct FROM inbox")
    assert [tuple(row) for row in rows] == [("web", "web", "ann", True)]


NOTHING = {"turns": [], "replies": [], "has_more": False, "open": [], "newest_reply": 0, "branch": ""} | {
    "choices": {"persona_id": None, "model": None}
}


async def messages_of(browser: httpx.AsyncClient, chat: str, **query: Any) -> Any:
    """Return a page of a chat's transcript, without the moment at which it was read."""
    page = (await browser.get(f"/page/chats/{chat}/messages", params=query)).json()
    return {name: value for name, value in page.items() if name != "moment"}


async def test_the_list_has_the_chats_and_each_its_turns(site: Site) -> None:
    async with site.browser("ann") as browser:
        await sends(browser, "about tea", chat="c1", event_id="e1")
        await sends(browser, "about pots", chat="c2", event_id="e2")
        chats = (await browser.get("/page/chats")).json()
        messages = await messages_of(browser, "c1")

    assert [(chat["chat"], chat["title"]) for chat in chats["chats"]] == [("c2", "about pots"), ("c1", "about tea")]
    assert chats["before"] is None
    [turn] = messages["turns"]
    assert [event["name"] for event in turn["events"]] == ["user_message", "message", "turn_complete"]
    assert [event.get("content") for event in turn["events"]] == ["about tea", "You said: about tea", None]
    assert messages["open"] == []


async def test_one_person_s_chats_are_not_another_s(site: Site) -> None:
    async with site.browser("ann") as ann, site.browser("bob") as bob, site.browser("ann/c1") as mallory:
        await sends(ann, "a secret", chat="c1", event_id="e1")
        await sends(ann, "/help", chat="c1", event_id="e2")
        message = await site.parley.value("SELECT id FROM inbox")
        for other in (bob, mallory):
            assert await messages_of(other, "c1") == NOTHING
            assert (await other.get("/page/chats")).json()["chats"] == []
            assert (await other.get("/page/search", params={"words": "secret"})).json() == {"matches": []}
            assert (await other.get("/chat/events", params={"event_id": "e1"})).status_code == 404
            for method, path, body in (
                ("GET", f"/page/chats/c1/messages/{message}/events", None),
                ("PATCH", "/page/chats/c1", {"title": "mine"}),
                ("DELETE", "/page/chats/c1", None),
                ("GET", "/page/chats/c1/export", None),
                ("GET", "/page/chats/ann%2Fc1/messages", None),
                ("GET", "/page/chats/..%2Fann%2Fc1/messages", None),
                ("GET", "/page/chats/%25/messages", None),
            ):
                theirs = await other.request(method, path, json=body)
                assert (theirs.status_code, theirs.json()["error"]["code"]) == (404, "not_found"), path
        assert len((await messages_of(ann, "c1"))["turns"]) == 1


async def test_an_answer_is_told_in_the_other_chats_of_its_person_alone(site: Site) -> None:
    async with site.browser("ann") as ann, site.browser("bob") as bob, site.browser("ann/c1") as mallory:
        for number, browser in enumerate((ann, bob, mallory)):
            await sends(browser, f"secret {number}", chat="c1", event_id="e1")
        for number, browser in enumerate((ann, bob, mallory)):
            async with browser.stream("GET", "/page/chats/c2/arrivals", params={"after_answer": "0"}) as stream:
                # The oldest comes first: one of somebody else would.
                told = await anext(line async for line in stream.aiter_lines() if "You said" in line)
            assert f'"You said: secret {number}"' in told
        assert (await ann.get("/page/chats/c2/arrivals", params={"after_answer": "x"})).status_code == 400


async def test_the_id_of_a_person_that_begins_as_another_s_opens_nothing_of_theirs(site: Site) -> None:
    async with site.browser("ann") as ann:
        for longer in ("ann/b", "ann:b", "ann0"):
            async with site.browser(longer) as other:
                await sends(other, "hello", chat="c1")
            chats = await ann.get("/page/chats")
            found = await ann.get("/page/search", params={"words": "hello"})
            events = await ann.get("/chat/events", params={"event_id": "b:e1"})

            assert (chats.json()["chats"], found.json()["matches"], events.status_code) == ([], [], 404), longer


async def test_a_waiting_message_is_listed_as_open(site: Site) -> None:
    go_on, patient = gated_answer("At last.")
    site.parley.model.play(patient)
    async with site.browser() as browser:
        first = asyncio.create_task(sends(browser, "one", event_id="e1"))
        await site.parley.model.until(1)
        second = asyncio.create_task(sends(browser, "two", event_id="e2"))
        async with asyncio.timeout(PATIENCE):
            messages: Any = NOTHING
            while len(messages["open"]) < 2:
                messages = await messages_of(browser, "c1")
        go_on.set()
        await asyncio.gather(first, second)

    assert [(entry["event_id"], entry["content"], entry["turn_id"] is None) for entry in messages["open"]] == [
        ("e1", "one", False),
        ("e2", "two", True),
    ]
    # What it has done so far is followed.
    assert [(turn["is_running"], len(turn["events"])) for turn in messages["turns"]] == [(True, 1)]


async def test_stop_ends_the_turn_that_runs(site: Site) -> None:
    _, endless = gated_answer("never")
    site.parley.model.play(endless)
    async with site.browser() as browser:
        task = asyncio.create_task(sends(browser, "think hard"))
        await site.parley.model.until(1)
        stopped = await browser.post("/chat/stop", json={"chat": "c1"})
        events = frames((await task).text)

    assert stopped.json() == {"stopped": True}
    assert events[-1][1]["error"] == "stopped"


async def test_files_come_with_a_message(site: Site) -> None:
    async with site.browser() as browser:
        response = await browser.post(
            "/chat/messages",
            data={"chat": "c1", "event_id": "e1", "content": ""},
            files=[("files", ("a.txt", b"one")), ("files", ("b.txt", b"two " * 500_000))],
        )

    assert "a.txt (file_id" in frames(response.text)[0][1]["content"]
    rows = await site.parley.sql("SELECT filename, size_bytes, status FROM file_records ORDER BY id")
    assert [tuple(row) for row in rows] == [("a.txt", 3, "stored"), ("b.txt", 2_000_000, "stored")]


async def test_a_command_is_answered_on_the_page(site: Site) -> None:
    async with site.browser() as browser:
        events = frames((await sends(browser, "/help")).text)

    assert [name for name, _ in events] == ["message", "turn_complete"]
    assert "/help" in events[0][1]["content"]


FORM = b'--x\r\nContent-Disposition: form-data; name="chat"\r\n\r\none\r\n--x--\r\n'


async def test_wrong_forms_are_refused_with_a_reason(site: Site) -> None:
    async with site.browser() as browser:
        for change, reason in (
            ({"chat": "../x"}, "400 invalid_request: chat: string should match pattern"),
            ({"event_id": ""}, "400 invalid_request: event_id: string should match pattern"),
            ({"content": " "}, "400 invalid_request: content: it may be empty only when there are files"),
            ({"content": "x" * 100_001}, "400 invalid_request: content: string should have at most 100000"),
            ({"colour": "red"}, "400 invalid_request: colour: there is no such field"),
        ):
            fields = {"chat": "c1", "event_id": "e1", "content": "hello"} | change
            response = await browser.post("/chat/messages", files={key: (None, value) for key, value in fields.items()})
            assert refusal(response).startswith(reason)
        broken = await browser.post(
            "/chat/messages", content=b"--x\r\nnonsense", headers={"Content-Type": "multipart/form-data; boundary=x"}
        )
        without = await browser.post("/chat/messages", content=b"", headers={"Content-Type": "multipart/form-data"})
        large = await browser.post("/chat/messages", data={"chat": "c1"}, files={"files": ("a", bytes(4_000_000))})
        plain = await browser.post("/chat/messages", json={"chat": "c1"})
        kinds = [f"multipart/form-data; boundary=x; charset={charset}" for charset in ("undefined", "punycode")]
        encoded = [await browser.post("/chat/messages", content=FORM, headers={"Content-Type": kind}) for kind in kinds]

    assert refusal(broken).startswith("400 ")
    assert refusal(without).startswith("400 invalid_form")
    assert refusal(large) == "413 too_large: Too large: the body may have 3 MB."
    assert [refusal(answer)[:26] for answer in (plain, *encoded)] == ["415 unsupported_media_type"] * 3


async def test_the_owner_s_link_names_the_owner(site: Site) -> None:
    async with httpx.AsyncClient(base_url=site.url, headers=BROWSER, timeout=30) as browser:
        await browser.get(site.link("owner"), headers=BY_HAND)
        await sends(browser, "hello")

    assert await site.parley.value("SELECT platform_user_id FROM inbox") == "owner"
    assert one_time_link(site.parley.app).startswith("http://127.0.0.1:0/?key=")
