"""What a person sees and changes about themselves, over HTTP and in a real browser."""

import re
from html import unescape
from typing import Any

import httpx
from playwright.async_api import Browser, expect

from agent.personal_data.export import statements
from tests.adapters.web.admin.conftest import make_person
from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import BROWSER, BY_HAND, Site
from tests.adapters.web.test_chat import sends
from tests.adapters.web.test_messages import refusal
from tests.standins.openai_api import Answer
from tests.support.login import look

TOKEN = re.compile(r'name="token" value="([^"]+)"')
PAGES = ("", "/memories", "/files", "/schedules", "/accounts", "/data")


async def act(client: httpx.AsyncClient, path: str, **fields: Any) -> httpx.Response:
    """Send a form of a page, with the token that stands in it."""
    token = TOKEN.search((await client.get("/me/data")).text)
    assert token is not None
    return await client.post(path, data={"token": unescape(token[1]), **{k: str(v) for k, v in fields.items()}})


def sentence(response: httpx.Response) -> str:
    """Return the sentence with which a page answers a form."""
    results = re.search(r'class="result[^>]*>\s*<p>(.*?)</p>', response.text, re.DOTALL)
    return unescape(results[1]) if results else response.text


async def ann_with_things(site: Site, ann: httpx.AsyncClient) -> dict[str, int]:
    """Give Ann a memory, a file, a job and an account elsewhere; return their ids."""
    site.parley.model.play(
        [Answer(tool_calls=[("knowledge__remember", {"content": "Ann drinks oolong"})]), *[Answer("Noted.")] * 9]
    )
    files = {"files": ("list.txt", b"oolong", "text/plain")}
    await ann.post("/chat/messages", data={"chat": "c1", "event_id": "e1", "content": "I drink oolong"}, files=files)
    await site.parley.sql("SELECT parley_set_permission(id, 'user') FROM users")
    await sends(ann, "/schedule add tomorrow at 9: water the plants", event_id="e2")
    await site.parley.sql("SELECT parley_link_account(admin.find_user('web', 'ann'), 'discord', '80351110224678912')")
    return {
        "file": await site.parley.value("SELECT id FROM file_records"),
        "job": await site.parley.value("SELECT id FROM scheduled_jobs"),
        "account": await site.parley.value("SELECT id FROM user_platform_links WHERE platform = 'discord'"),
    }


async def test_another_person_s_things_answer_like_missing_ones(site: Site) -> None:
    async with site.browser("bob") as bob, site.browser("ann") as ann:
        ids = await ann_with_things(site, ann)
        memories = (await ann.get("/me/memories")).text
        memory = int(re.findall(r'name="id" value="(\d+)"', memories)[0])
        browser = await site.parley.value("SELECT max(id) FROM web_sessions")
        await act(ann, "/me/accounts", act="create_token", name="My laptop", days=30, scopes="read")
        token = await site.parley.value("SELECT id FROM api_tokens")
        others = [
            ("/me/memories", {"act": "forget", "id": memory}),
            ("/me/memories", {"act": "correct", "id": memory, "content": "mallory"}),
            ("/me/files", {"act": "delete_file", "id": ids["file"]}),
            ("/me/schedules", {"act": "change_job", "verb": "cancel", "id": ids["job"]}),
            ("/me/accounts", {"act": "end_session", "id": browser}),
            ("/me/accounts", {"act": "unlink", "id": ids["account"]}),
            ("/me/accounts", {"act": "revoke_token", "id": token}),
        ]
        for path, fields in others:
            name = str(fields["id"])
            theirs = sentence(await act(bob, path, **fields))
            unknown = sentence(await act(bob, path, **(fields | {"id": 999999})))
            assert theirs.replace(name, "N") == unknown.replace("999999", "N"), fields
        for path in PAGES:
            assert "oolong" not in (await bob.get(f"/me{path}")).text


async def test_a_person_allows_themselves_less_and_never_more(site: Site) -> None:
    async with site.browser("ann") as ann:
        await sends(ann, "hello", event_id="e1")
        await site.parley.sql("SELECT admin.set_budget('web', 'ann', 100000)")
        stored = await act(ann, "/me", act="set_own_limit", tokens="900,000")
        assert "You allow yourself 900,000 tokens in a month." in sentence(stored)
        assert "(set by yourself)" in stored.text
        assert "of 100,000" in stored.text
        assert await site.parley.value("SELECT who FROM admin.audit WHERE \"table\" = 'budgets'") == "web:ann"
        answer = await act(ann, "/me", act="set_own_limit", tokens="-5")
        assert "whole number" in sentence(answer)
        # What was entered stands there to be put right.
        assert 'value="-5"' in answer.text

        await act(ann, "/me", act="set_own_limit", tokens="0")
        calls = len(site.parley.model.requests)
        assert "the limit that you have set for yourself" in (await sends(ann, "hello?", event_id="e2")).text
        assert len(site.parley.model.requests) == calls
        # Others and what admins allow are as they were.
        assert await site.parley.value("SELECT token_budget_monthly FROM users") == 100000
        # Whoever reads about the person's limits is told which of them is their own.
        user_id = await site.parley.value("SELECT id FROM users")
        async with site.parley.app.database.transaction() as session:
            rows = (await session.execute(statements.export_limits, {"user_id": user_id})).mappings().all()
        assert [(row["kind"], row["token_limit"]) for row in rows] == [("own", 0)]
        await make_person(site, "olga", "admin")
        async with site.browser("olga") as olga:
            assert "(set by the person)" in (await olga.get(f"/admin/people/{user_id}")).text
        lifted = await act(ann, "/me", act="set_own_limit", tokens="")
        assert "no limit of your own" in sentence(lifted)
        await sends(ann, "hello!", event_id="e3")
        assert len(site.parley.model.requests) > calls


async def test_a_person_changes_what_is_theirs(site: Site) -> None:
    async with site.browser("ann") as ann, site.browser("ann") as phone:
        ids = await ann_with_things(site, ann)
        read_page = {path: (await ann.get(f"/me{path}")).text for path in PAGES}
        memory = int(re.findall(r'name="id" value="(\d+)"', read_page["/memories"])[0])
        made = await act(ann, "/me/accounts", act="create_token", name="My laptop", days=30, scopes="read")
        token = await site.parley.value("SELECT id FROM api_tokens")
        assert "Ann drinks oolong" in read_page["/memories"]
        assert "list.txt" in read_page["/files"]
        assert "water the plants" in read_page["/schedules"]
        assert "80351110224678912" in read_page["/accounts"]
        assert re.search(r"parley_[0-9a-f]{64}", made.text)
        assert "parley_" not in (await ann.get("/me/accounts")).text
        # As long as a memory may be: a form makes nine bytes of each of these.
        text = f"Ann drinks mate {'漢' * 1980}"
        assert (
            sentence(await act(ann, "/me/memories", act="correct", id=memory, content=text))
            == f"I remember now: {text}"
        )
        facts = (await ann.get("/me/memories")).text
        assert ("Ann drinks mate" in facts, "oolong" in facts) == (True, False)
        assert "From now on I remember nothing" in sentence(await act(ann, "/me/memories", act="pause_memory"))
        assert sentence(await act(ann, "/me/files", act="delete_file", id=ids["file"])) == "list.txt is deleted."
        assert sentence(await act(ann, "/me/schedules", act="change_job", verb="pause", id=ids["job"])).startswith(
            "Paused"
        )
        assert "Resume" in (await ann.get("/me/schedules")).text
        assert sentence(await act(ann, "/me/accounts", act="revoke_token", id=token)) == "The token has ended."
        assert sentence(await act(ann, "/me/accounts", act="end_others")) == "One other browser is signed out."
        assert [(await client.get("/me")).status_code for client in (phone, ann)] == [401, 200]
        assert sentence(await act(ann, "/me/accounts", act="unlink", id=ids["account"])).startswith(
            "The account is not"
        )
        last = await site.parley.value("SELECT id FROM user_platform_links WHERE platform_user_id = 'ann'")
        assert sentence(await act(ann, "/me/accounts", act="unlink", id=last)).startswith("This account stays")
        exported = await act(ann, "/me/data", act="export")
        assert "parley-archive-" in exported.text
        unknown = await ann.get("/me/nothing", headers={"Accept": "text/html,*/*;q=0.8"})
        assert (unknown.status_code, "<h1>That did not work</h1>" in unknown.text) == (404, True)


async def test_a_correction_that_is_refused_stands_in_its_form(site: Site) -> None:
    async with site.browser("ann") as ann:
        await ann_with_things(site, ann)
        facts = (await ann.get("/me/memories")).text
        memory = re.findall(r'name="id" value="(\d+)"', facts)[0]
        answer = await ann.post(
            "/me/memories", data={"act": "correct", "token": "old", "id": memory, "content": "Ann's <best> tea"}
        )
    assert "You have signed in anew" in sentence(answer)
    assert "<details open>" in answer.text
    assert ">Ann&#39;s &lt;best&gt; tea</textarea>" in answer.text


async def test_a_form_of_somebody_else_changes_nothing(site: Site) -> None:
    async with site.browser("ann") as ann, site.browser("bob") as bob:
        token = TOKEN.search((await bob.get("/me/data")).text)
        assert token is not None
        for wrong in ("", "x", "é", unescape(token[1])):
            answer = await ann.post("/me/memories", data={"act": "pause_memory", "token": wrong})
            assert answer.status_code == 422
            assert "You have signed in anew" in sentence(answer)
        assert (await act(ann, "/me", act="nothing")).status_code == 404
        assert (await act(ann, "/me", act="pause_memory", **{f"f{n}": "x" for n in range(30)})).status_code == 400
        ann.headers["Sec-Fetch-Site"] = "cross-site"
        assert refusal(await ann.post("/me/memories", data={"act": "pause_memory"})).startswith("403 wrong_origin")
        assert refusal(await ann.post("/logout")).startswith("403 wrong_origin")
    async with httpx.AsyncClient(base_url=site.url, headers=BROWSER) as stranger:
        for path in PAGES:
            assert (await stranger.get(f"/me{path}")).status_code == 401
            assert (await stranger.post(f"/me{path}", data={"act": "erase"})).status_code == 401
    assert await site.parley.value("SELECT count(*) FROM users WHERE is_memory_paused") == 0


async def test_what_can_not_be_taken_back_needs_a_fresh_login(site: Site) -> None:
    async with site.browser("ann") as ann:
        await site.parley.sql("UPDATE web_sessions SET created_at = now() - interval '16 minutes'")
        for path, fields in (
            ("/me/data", {"act": "erase", "words": "erase me"}),
            ("/me/accounts", {"act": "create_token", "days": 30}),
            ("/me/accounts", {"act": "unlink", "id": 1}),
        ):
            assert "Sign in once more for that" in sentence(await act(ann, path, **fields))
        given = await ann.post("/chat/commands", json={"chat": "c1", "command": " /Erase me"})
        hidden = [await sends(ann, f"{slash}erase me") for slash in ("/", "\u200b/", "\u202e /\u200b", "\uff0f")]
        for response in (given, *hidden):
            assert "Sign in once more for that" in refusal(response)
        # A link of the same person makes the login fresh, and ends the session before.
        assert (await ann.get(site.link("ann"), headers=BY_HAND)).status_code == 200
        assert "Nothing was erased" in sentence(await act(ann, "/me/data", act="erase", words="yes"))
        assert await site.parley.value("SELECT count(*) FROM web_sessions") == 1
        # Whoever had an account may have signed in by it.
        await site.parley.sql("SELECT parley_link_account(admin.find_user('web', 'ann'), 'discord', '8')")
        account = await site.parley.value("SELECT id FROM user_platform_links WHERE platform = 'discord'")
        async with site.browser("ann") as thief:
            await act(ann, "/me/accounts", act="unlink", id=account)
            assert [(await client.get("/me")).status_code for client in (thief, ann)] == [401, 200]


async def test_the_pages_are_readable_and_lead_to_the_end(site: Site, chromium: Browser) -> None:
    async with site.browser("ann") as ann:
        await ann_with_things(site, ann)
        await site.parley.sql(
            "INSERT INTO token_logs (user_id, model, input_tokens, output_tokens, cost_estimate, created_at)"
            " SELECT users.id, 'stub', 900 * n, 40 * n, 0.002 * n, now() - n * interval '2 days'"
            " FROM users, generate_series(1, 14) AS n"
        )
    problems = []
    async with open_window(chromium, site.link("ann")) as window:
        page = window.page
        await page.get_by_role("link", name="About me").click()
        for path in PAGES:
            await page.goto(f"{site.url}/me{path}")
            problems += await look(page, f"me{path.replace('/', '-')}")
        await page.goto(f"{site.url}/me/memories")
        await page.get_by_text("Correct").first.click()
        await page.get_by_label("What is right").fill("Ann drinks mate")
        await page.get_by_role("button", name="Keep this instead").click()
        await expect(page.get_by_role("status")).to_contain_text("I remember now: Ann drinks mate")
        await page.goto(f"{site.url}/me/data")
        await page.get_by_label('Write "erase me"').fill("erase me")
        await page.get_by_role("button", name="Erase me").click()
        await expect(page.get_by_role("heading", name="You are erased")).to_be_visible()
        await expect(page.get_by_text("Your receipt")).to_be_visible()
    assert problems == []
    assert await site.parley.value("SELECT count(*) FROM users") == 0
