"""What was spent, and why turns went as they did, as admins read it."""

import csv
import re
from html import unescape

import httpx

from tests.adapters.web.admin.conftest import HOSTILE, make_person
from tests.adapters.web.admin.scenes import write_past
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer
from tests.support.parley import Parley
from tests.support.planning import call, plan

# Names that spreadsheets would run, or that would end a cell.
FORMULA = '=HYPERLINK("https://evil.example","pay")'


async def text(browser: httpx.AsyncClient, path: str) -> str:
    """Return what a page says, without its tags."""
    response = await browser.get(path)
    assert response.status_code == 200, path
    # What a stranger has written is never part of the page's own markup.
    assert HOSTILE not in response.text
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", response.text).split()))


async def test_what_was_spent_is_told_by_day_and_by_all_that_it_was_spent_on(site: Site) -> None:
    await make_person(site, "ann", "admin")
    await write_past(site)
    async with site.browser("ben") as ben:
        for page in ("spend", "spend/export?by=day", "turns", "turns/1", "personas/1", "tools", "schedules", "outbox"):
            assert (await ben.get(f"/admin/{page}")).text == (await ben.get("/nowhere")).text
    total = await site.parley.value("SELECT sum(input_tokens + output_tokens) FROM token_logs")
    async with site.browser("ann") as ann:
        page = await text(ann, "/admin/spend")
        assert f"Tokens {total:,}" in page
        assert "By person" in page
        assert "installation month" in page
        rows = {"person": "Ben", "model": "mock/large", "server": "test:s1", "channel": "test:s1 / general"}
        for kind, name in (rows | {"persona": "Sage", "purpose": "summary"}).items():
            page = await text(ann, f"/admin/spend?by={kind}&since=2020-01-01")
            assert name in page, kind
            assert "Nothing was spent" not in page
        assert "No model was called" in await text(ann, "/admin/spend?since=2019-01-01&until=2019-01-07")
        # What is no day, and a span from here to anywhere, is put right; what is no kind is nowhere.
        await text(ann, "/admin/spend?since=tomorrow&until=%27")
        await text(ann, "/admin/spend?since=2000-01-01&until=2200-01-01")
        assert (await ann.get("/admin/spend?by=user_id")).status_code == 404

        await site.parley.sql("UPDATE users SET display_name = :name WHERE display_name = 'Ben'", name=FORMULA)
        file = await ann.get("/admin/spend/export?by=person")
        assert file.headers["content-type"] == "text/csv; charset=utf-8"
        assert "attachment" in file.headers["content-disposition"]
        head, row = csv.reader(file.text.splitlines())
        assert head == ["person", "id", "calls", "tokens", "cached", "dollars", "calls_of_unknown_price"]
        assert row[0] == f"'{FORMULA}"
        assert int(row[3]) == total
        days = list(csv.reader((await ann.get("/admin/spend/export?by=day")).text.splitlines()))
        assert sum(int(day[3]) for day in days[1:]) == total
        assert (await ann.get("/admin/spend/export?by=all")).status_code == 404


async def test_turns_are_found_and_explained_without_what_is_somebodys_own(site: Site) -> None:
    await make_person(site, "ann", "admin")
    turn = await write_past(site)
    site.parley.model.play([Answer(tool_calls=[("knowledge__recall", {"query": "plums"})]), "You like plums."])
    private = await site.parley.ask("What do I like?", user="ben", username="Ben", channel="dm-ben", is_direct=True)
    planned = await ask_planner(site)
    async with site.browser("ann") as ann:
        assert "Turns Newest first, live" in await text(ann, "/admin/turns")
        cases = {
            "status=refused": {2},
            "status=answered": {turn, private.turn_id, planned},
            "person=ben": {turn, 2, private.turn_id, planned},
            "person=2": {turn, 2, private.turn_id, planned},
            "person=nobody": set(),
            "place=s1": {turn, 2},
            "place=dm-ben": {private.turn_id},
            "model=openai%2Fstub": {turn, private.turn_id, planned},
            "error=any": {2},
            "error=budget_exhausted&status=refused": {2},
            "since=2020-01-01&persona=1": {turn, 2, private.turn_id, planned},
            "since=2199-01-01": set(),
            f"before={turn + 1}": {turn},
        }
        for query, turns in cases.items():
            page = (await ann.get(f"/admin/turns?{query}")).text
            assert {int(id_) for id_ in re.findall(r'href="/admin/turns/(\d+)"', page)} == turns, query
        for query in ("status=lost", "before=x"):
            assert (await ann.get(f"/admin/turns?{query}")).status_code == 404

        page = await text(ann, f"/admin/turns/{turn}")
        for part in ("version 2 (now it is version 3): it belongs", "The model calls 2 tools", "unreachable (503)"):
            assert part in page
        assert '"expression":' in page.replace(" ", "")
        assert "calculator.calculate result" in page
        assert "Delivery by http delivered" in page
        assert "is switched on by CODE_EXECUTOR_SHELL" in page
        assert "http, by Ben; arrived after" in page
        await arrive_early(site, ann, turn)
        assert "budget_exhausted" in await text(ann, "/admin/turns/2")
        await keep_words(ann, private.turn_id, planned)
        page = await text(ann, "/admin/schedules?status=paused")
        assert "0 9 * * 1 (Europe/Berlin)" in page
        assert "A secret word" not in page
        assert (await ann.get("/admin/schedules?status=late")).status_code == 404
        for missing in ("999", "9223372036854775808", "0", "x"):
            assert (await ann.get(f"/admin/turns/{missing}")).status_code == 404


async def arrive_early(site: Site, ann: httpx.AsyncClient, turn: int) -> None:
    """Look at a message of a platform whose clock is ahead, and which tells no name."""
    await site.parley.sql(
        "UPDATE inbox SET sent_at = created_at + interval '5 s', platform_username = NULL WHERE turn_id = :turn",
        turn=turn,
    )
    assert "http; arrived after 0 s" in await text(ann, f"/admin/turns/{turn}")


async def ask_planner(site: Site) -> int:
    """Let a plan look for what is remembered of Ben, in a channel; return the turn's number."""
    await site.parley.sql("UPDATE personas SET loop_mode = 'planner'")
    site.parley.model.play([plan(call("knowledge.recall", query="plums")), plan(response="You see.")])
    answer = await site.parley.ask("What do I see?", user="ben", username="Ben", channel="p1", server="s9")
    return answer.turn_id


async def keep_words(ann: httpx.AsyncClient, private: int, planned: int) -> None:
    """Look for what is somebody's own: what is remembered, also in a plan, and what is said in a direct message."""
    page = await text(ann, f"/admin/turns/{planned}")
    assert "may be private; it is not shown" in page
    assert "You see." in page
    for turn in (private, planned):
        page = await text(ann, f"/admin/turns/{turn}")
        for part in ("What do I like?", "You like", "plums"):
            assert part not in page, turn
    assert "is its person's own; it is not shown" in await text(ann, f"/admin/turns/{private}")


async def write_busy_channel(parley: Parley) -> None:
    """Write ten thousand turns of one channel."""
    await parley.sql(
        """
        WITH place AS (
            INSERT INTO conversations (platform, platform_channel_id) VALUES ('test', 'busy') RETURNING id
        ), numbers AS (SELECT nextval('turns_id_seq') AS id FROM generate_series(1, 10000))
        INSERT INTO turns (id, conversation_id, status, finished_at)
        SELECT numbers.id, place.id, 'answered', now() FROM numbers, place
        """
    )


async def test_a_page_of_ten_thousand_turns_leads_to_the_older_ones(site: Site) -> None:
    await make_person(site, "ann", "admin")
    await write_busy_channel(site.parley)
    async with site.browser("ann") as ann:
        first = (await ann.get("/admin/turns?place=busy")).text
        assert re.findall(r'href="/admin/turns/(\d+)"', first) == [str(id_) for id_ in range(10000, 9950, -1)]
        older = re.search(r'href="([^"]+)">Show older', first)
        assert older is not None
        second = (await ann.get(unescape(older[1]))).text
        assert re.findall(r'href="/admin/turns/(\d+)"', second) == [str(id_) for id_ in range(9950, 9900, -1)]
        assert "data-hx-trigger" in first
        assert "data-hx-trigger" not in second
