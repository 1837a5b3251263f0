"""What the lists find, where they go on, and what a place is told to be."""

import asyncio
import re

from adapters.web.admin.visit import READS
from tests.adapters.web.admin.conftest import WAITING, make_person, post, write_scene
from tests.adapters.web.conftest import Site
from tests.support.connections import connected
from tests.support.eventually import eventually

MANY = """
WITH made AS (INSERT INTO users (display_name) SELECT 'Person ' || n FROM generate_series(1, 60) AS n RETURNING id)
INSERT INTO user_platform_links (user_id, platform, platform_user_id, platform_username)
SELECT id, 'discord', 'account-' || id, 'nick_' || id FROM made
"""
LIMIT = """
SELECT admin.set_limit('channel', tokens => :tokens, platform => 'discord', server => '4711', channel => :channel)
"""
PERSON = re.compile(r'<th scope="row"><a href="/admin/people/(\d+)">')
CELL = re.compile(r"<t[hd][^>]*>([^<]*)</t[hd]>")


async def test_people_are_found_and_listed_without_end(site: Site) -> None:
    bob = await write_scene(site)
    await site.parley.sql(MANY)
    async with site.browser("ann") as ann:

        async def find(query: str) -> list[int]:
            return [int(number) for number in PERSON.findall((await ann.get(f"/admin/people?{query}")).text)]

        assert await find("q=bob") == [bob]
        assert await find("q=Person+17") == await find("q=nick_19") == await find("q=discord:account-19") == [19]
        assert 19 in await find("q=19")
        assert await find("level=owner") == [1]
        assert await find("q=%25") == []
        await site.parley.sql("UPDATE users SET display_name = 'Über Jürgen' WHERE id = :id", id=bob)
        assert await find("q=%C3%BCBER") == await find("q=RGEN") == [bob]
        assert await find("platform=web") == [bob, 1]
        assert await find("q=nobody") == []
        first = await ann.get("/admin/people")
        older = re.findall(r'href="(/admin/people\?before=\d+)"', first.text)
        second = await ann.get(older[0])
        listed = PERSON.findall(first.text) + PERSON.findall(second.text)
        assert listed == [str(number) for number in range(62, 0, -1)]
        assert "before=" not in second.text
        for wrong in ("before=x", "before=-1", f"before={2**63}"):
            assert (await ann.get(f"/admin/people?{wrong}")).status_code == 404


async def test_a_place_says_what_applies_there_and_why(site: Site) -> None:
    await write_scene(site)
    await site.parley.sql("SELECT admin.set_channel_mode('discord', '4711', NULL, 'off')")
    await site.parley.sql("SELECT admin.bind_persona('Sage', 'discord', '4711')")
    for channel, tokens in (("4712", 70_000), ("other", 1)):
        await site.parley.sql(LIMIT, channel=channel, tokens=tokens)
    async with site.browser("ann") as ann:
        cells = CELL.findall((await ann.get("/admin/servers/1/channels/4712")).text)
        lines = {tuple(cells[number : number + 3]) for number in range(0, len(cells), 3)}
        assert ("answers", "never", "set for all channels of the server") in lines
        assert ("persona", "Sage", "it belongs to the server") in lines
        assert ("limit", "70,000 tokens in a month, 0 used", "a limit of the channel") in lines
        assert ("limit", "200,000 tokens in 30 days, 0 used", "the server&#39;s budget") in lines
        assert ("limit", "50 dollars in a month, 0 used", "a limit of the installation") in lines
        assert len([line for line in lines if line[0] == "limit"]) == 3


async def test_no_name_and_no_date_breaks_a_page_or_leads_to_another(site: Site) -> None:
    bob = await write_scene(site)
    await site.parley.sql("UPDATE users SET display_name = E'  Bob\\r\\n  the\\tlast ' WHERE id = :id", id=bob)
    await site.parley.sql("UPDATE users SET time_zone = 'Asia/Tokyo'")
    await site.parley.sql("SELECT admin.grant_permission('web', 'bob', 'user', 'infinity')")
    await site.parley.sql("UPDATE conversations SET platform_channel_id = 'a/b%41?'")
    async with site.browser("ann") as ann:
        for path in ("people", f"people/{bob}", "audit", "audit?since=0001-01-01", "audit?since=9999-12-31"):
            assert (await ann.get(f"/admin/{path}")).status_code == 200, path
        channel = re.findall(r'href="(/admin/servers/1/channels/[^"]+)"', (await ann.get("/admin/servers/1")).text)[0]
        action = re.findall(r'action="([^"]+)"', (await ann.get(channel)).text)[0]
        assert (await post(ann, action, act="mode", mode="off")).status_code == 200
        assert await site.parley.value("SELECT platform_channel_id FROM channel_modes") == "a/b%41?"
        assert (await post(ann, f"/admin/people/{bob}", act="erase", name="")).status_code == 422
        assert (await post(ann, f"/admin/people/{bob}", act="erase", name="Bob the last")).status_code == 200
        await site.parley.sql("UPDATE users SET display_name = ' '")
        assert (await post(ann, "/admin/people/1", act="erase", name="")).status_code == 422
        assert "last owner" in (await post(ann, "/admin/people/1", act="erase", name="1")).text


async def test_a_long_search_leaves_connections_to_messages(site: Site) -> None:
    await make_person(site, "ann", "admin")
    async with site.browser("ann") as ann, connected(site.parley.app.database.address) as owner:
        holding = owner.transaction()
        await holding.start()
        await owner.execute("LOCK TABLE audit_log")
        searches = [asyncio.create_task(ann.get("/admin/audit")) for _ in range(4)]
        await eventually(lambda: site.parley.value(WAITING, count=READS))
        assert (await site.posts("Hello")).status_code == 200
        assert not any(search.done() for search in searches)
        await holding.rollback()
        assert [(await search).status_code for search in searches] == [200] * 4


async def test_the_chat_page_leads_admins_to_the_pages(site: Site) -> None:
    await make_person(site, "ann", "admin")
    await make_person(site, "bob", "user")
    async with site.browser("ann") as ann, site.browser("bob") as bob:
        assert (await ann.get("/page/state")).json()["has_admin_pages"] is True
        assert (await ann.get("/page/state", headers={"Host": "10.0.0.1"})).json()["has_admin_pages"] is False
        assert (await bob.get("/page/state")).json()["has_admin_pages"] is False
