"""Sessions of browsers: they end when they shall, and are looked up by one statement."""

import asyncio

import asyncpg
import httpx
import pytest
from msgspec.structs import replace

from adapters.web.login.sessions import COOKIE, to_hash
from shared.db.roles import ADMIN_ROLE
from tests.adapters.web.conftest import BROWSER, Site, open_site
from tests.adapters.web.test_chat import sends
from tests.adapters.web.test_messages import refusal
from tests.support.connections import connected


async def test_a_session_is_kept_as_a_hash_and_ends_with_its_row(site: Site, owner: asyncpg.Connection) -> None:
    async with site.browser("ann") as ann, site.browser("bob") as bob:
        token = ann.cookies[COOKIE]
        rows = await owner.fetch("SELECT * FROM web_sessions ORDER BY id")
        assert (rows[0]["token_hash"], rows[0]["login"]) == (to_hash(token), "link")
        assert rows[0]["user_agent"].startswith("python-httpx")
        # The time of its last use is written at most once an hour.
        await ann.get("/page/chats")
        assert (
            await owner.fetchval("SELECT last_seen_at FROM web_sessions WHERE id = $1", rows[0]["id"])
            == (rows[0]["last_seen_at"])
        )
        await owner.execute(
            "UPDATE web_sessions SET last_seen_at = now() - interval '61 minutes', ends_at = now() + interval '1 day'"
        )
        await ann.get("/page/chats")
        assert await owner.fetchval(
            "SELECT last_seen_at = ends_at - interval '30 days' AND last_seen_at > now() - interval '1 minute'"
            " FROM web_sessions WHERE id = $1",
            rows[0]["id"],
        )
        await owner.execute("UPDATE web_sessions SET ends_at = now() WHERE id = $1", rows[0]["id"])
        assert refusal(await ann.get("/page/chats")).startswith("401 no_session")
        for made_up in ("", "x", "0" * 64, rows[0]["token_hash"].hex()):
            async with httpx.AsyncClient(base_url=site.url, headers=BROWSER, cookies={COOKIE: made_up}) as thief:
                assert refusal(await thief.get("/page/chats")).startswith("401 no_session")
        # Each new one removes those that are over.
        async with site.browser("ann"):
            assert await owner.fetchval("SELECT count(*) FROM web_sessions") == 2
        # An account that is no longer the person's.
        await owner.execute("DELETE FROM user_platform_links WHERE platform_user_id = 'bob'")
        assert refusal(await bob.get("/page/chats")).startswith("401 no_session")


async def test_an_admin_lists_sessions_and_ends_a_person_s_with_an_entry_in_the_audit(site: Site) -> None:
    async with site.browser("ann") as ann, site.browser("ann") as phone, site.browser("bob") as bob:
        async with connected(site.parley.app.database.address, role=ADMIN_ROLE) as admin:
            listed = await admin.fetch("SELECT person, login FROM admin.sessions ORDER BY id")
            done = await admin.fetchval("SELECT admin.end_sessions('web', 'ann')")
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await admin.fetch("SELECT token_hash FROM web_sessions")
            entries = await admin.fetch("SELECT action FROM audit_log WHERE table_name = 'web_sessions'")
        statuses = [(await client.get("/page/chats")).status_code for client in (ann, phone, bob)]

    assert [tuple(row) for row in listed] == [("web:ann", "link"), ("web:ann", "link"), ("web:bob", "link")]
    assert done == "ann is signed out of the page: 2 sessions ended"
    assert [row["action"] for row in entries] == ["delete", "delete"]
    assert statuses == [401, 401, 200]


async def test_a_stream_of_a_session_that_has_ended_delivers_nothing_and_ends(
    site: Site, owner: asyncpg.Connection
) -> None:
    async with site.browser("ann") as ann, site.browser("ann") as thief:
        stolen = await owner.fetchval("SELECT max(id) FROM web_sessions")
        async with thief.stream("GET", "/page/chats/c1/arrivals", timeout=60) as stream:
            lines = stream.aiter_lines()
            await owner.execute("DELETE FROM web_sessions WHERE id = $1", stolen)
            async with asyncio.timeout(60):
                await sends(ann, "my secret tea")
                rest = [line async for line in lines]

    assert "secret" not in str(rest)


async def test_guests_come_in_where_a_setting_says_so_and_not_without_end(site: Site) -> None:
    async with httpx.AsyncClient(base_url=site.url, headers=BROWSER) as stranger:
        assert (await stranger.post("/login/guest")).status_code == 404
        assert "Go on as a guest" not in (await stranger.get("/")).text
    settings = site.parley.app.settings.model_copy(update={"web_guests": True})
    async with open_site(site.parley, replace(site.parley.app, settings=settings)) as open_to_all:
        statuses = []
        for number in range(6):
            # Whoever has one of these addresses has them all.
            headers = BROWSER | {"X-Forwarded-For": f"2001:db8::{number}"}
            async with httpx.AsyncClient(base_url=open_to_all.url, headers=headers) as guest:
                assert "Go on as a guest" in (await guest.get("/")).text
                statuses.append((await guest.post("/login/guest")).status_code)
                assert (await guest.get("/page/chats")).status_code == (200 if len(statuses) < 6 else 401)
        async with httpx.AsyncClient(base_url=open_to_all.url, headers=BROWSER) as led:
            for address in ("2001:db8:0:1::", "::ffff:192.0.2.7"):
                assert (await led.post("/login/guest", headers={"X-Forwarded-For": address})).status_code == 200
                led.cookies.clear()
            led.headers["Sec-Fetch-Site"] = "cross-site"
            assert (await led.post("/login/guest")).status_code == 403
    assert statuses == [200] * 5 + [429]
    assert await site.parley.value("SELECT count(*) FROM users WHERE permission_level = 'guest'") == 7
    networks = await site.parley.sql("SELECT visitor FROM login_attempts WHERE door = 'guest' ORDER BY id")
    assert [row[0] for row in networks] == ["2001:db8::/64", "2001:db8:0:1::/64", "::ffff:192.0.2.7"]
