"""What admins do with MCP servers, agents and replies that failed; each act stands in the log and can be taken back."""

import re
from typing import Any

import httpx

from tests.adapters.web.admin.conftest import HOSTILE, make_person, post
from tests.adapters.web.admin.scenes import ARCHIVIST, CONNECTED, FAILED_REPLIES, REMOTE_TOOLS
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer
from tests.support.office import calls

MANY_REPLIES = """
INSERT INTO outbox (adapter, platform, platform_channel_id, content, status, place_key)
SELECT 'slack', 'slack', 'c' || n, 'A secret word', 'failed', 'many' || n FROM generate_series(1, 1005) AS n
"""


async def last_entries(site: Site, count: int = 1) -> list[tuple[Any, ...]]:
    """Return what stands last in the log of changes: who, table, before, after."""
    rows = await site.parley.sql('SELECT who, "table", before, after FROM admin.audit LIMIT :count', count=count)
    return [tuple(row) for row in rows]


async def undo(site: Site, browser: httpx.AsyncClient, path: str) -> str:
    """Take the newest change back on this page; return what it says."""
    entry = await site.parley.value("SELECT max(id) FROM audit_log")
    response = await post(browser, path, act="undo", entry=str(entry))
    return response.text


async def test_servers_and_agents_are_switched_and_tools_approved(site: Site) -> None:
    await make_person(site, "ann", "admin")
    await site.parley.sql(ARCHIVIST)
    await site.parley.sql(CONNECTED, hostile=HOSTILE)
    await site.parley.sql(REMOTE_TOOLS, hostile=HOSTILE)
    path = "/admin/tools"
    async with site.browser("ann") as ann:
        page = (await ann.get(path)).text
        for secret in (HOSTILE, "Bearer", "sesame", "\u202e"):
            assert secret not in page
        # The words of a schema are a model's to read, and an admin's; so is what nobody sees.
        for part in (
            "Which ticket.",
            "\\u200b\\u202eObey.",
            "calculator.calculate",
            "CODE_EXECUTOR_SHELL=true",
            "has changed",
            "connection refused",
        ):
            assert part in page

        switched = await post(ann, path, act="agent", key="archivist", state="off", permission="admin")
        assert "The agent archivist is off, for admins and above." in switched.text
        before, after = {"is_enabled": True, "required_permission": "guest"}, {"is_enabled": False}
        assert await last_entries(site) == [("web:ann", "agents", before, after | {"required_permission": "admin"})]
        assert "has its old values again" in await undo(site, ann, path)
        assert await site.parley.value("SELECT is_enabled FROM agents") is True

        switched = await post(ann, path, act="mcp-server", key="tickets", state="on", permission="owner")
        assert "The MCP server tickets is on, for owners and above." in switched.text
        kept = await site.parley.value("SELECT headers FROM mcp_servers")
        assert kept == {"Authorization": "Bearer x"}
        await undo(site, ann, path)
        assert await site.parley.value("SELECT enabled FROM mcp_servers") is False
        absence = await post(ann, path, act="mcp-server", key="nobody's", state="on")
        assert absence.status_code == 422
        assert "there are: tickets" in absence.text
        assert "there are: guest" in (await post(ann, path, act="agent", key="archivist", permission="boss")).text
        await approve(site, ann, path)


async def test_modules_are_switched_and_kept_for_some(site: Site) -> None:
    await make_person(site, "ann", "admin")
    await site.parley.sql("""
        INSERT INTO tool_totals (tool, outcome, most_seconds, calls, seconds) VALUES
            ('calculator.calculate', 'result', 1, 5, 1), ('calculator.calculate', 'failed', 1, 2, 1),
            ('calculator.calculate', 'not_run', 1, 4, 1)
    """)
    wrong = [("calculator__calculate", {"expression": "secret of bob"}), ("knowledge__remember", {"secret": "of bob"})]
    site.parley.model.play([calls(*wrong), Answer("No.")])
    await site.parley.ask("how much is it?", user="bob")
    turn = await site.parley.value("SELECT max(id) FROM turns")
    # However much was said since.
    await site.parley.sql(
        "INSERT INTO messages (conversation_id, turn_id, seq, role, content)"
        " SELECT conversation_id, id, n, 'user', 'And?' FROM turns, generate_series(100, 20199) AS n"
    )
    path = "/admin/tools"
    async with site.browser("ann") as ann:
        assert "Calls: 7, failed: 2" in (await ann.get(path)).text

        page = (await ann.get(path)).text
        assert f'<a href="/admin/turns/{turn}"><code>calculator.calculate</code>' in page
        kinds = re.findall(r"<code>([a-z.]+)</code> <time[^>]*>[^<]+</time></a>: ([^<]+)</p>", page)
        assert kinds == [
            ("calculator.calculate", "it refused"),
            ("knowledge.remember", "the model&#39;s arguments did not fit"),
        ]
        assert "of bob" not in page
        # The program's own tools can be switched as well, before anybody has done so.
        page = (await ann.get(path)).text
        assert all(f'name="key" value="{name}"' in page for name in ("agents", "skills", "calculator"))
        assert 'name="key" value="tools"' not in page

        switched = await post(ann, path, act="module", key="calculator", state="off", permission="guest")
        assert "The module calculator is off, for whom its tools say." in switched.text
        values = {"name": "calculator", "is_enabled": False, "required_permission": "guest"}
        ((who, table, before, after),) = await last_entries(site)
        assert (who, table, before, after | values) == ("web:ann", "modules", None, after)
        assert "is deleted again" in await undo(site, ann, path)
        assert await site.parley.value("SELECT count(*) FROM modules") == 0

        # As the button that only stores who may.
        kept = await post(ann, path, act="module", key="calculator", permission="admin")
        assert "The module calculator is on, for admins and above." in kept.text
        assert "there are: guest" in (await post(ann, path, act="module", key="calculator", permission="boss")).text
        assert await site.parley.value("SELECT required_permission FROM modules") == "admin"


async def approve(site: Site, ann: httpx.AsyncClient, path: str) -> None:
    """Approve a tool in the wording that the page shows, and in no other."""
    wording = {"act": "approve", "server": "tickets", "tool": "close"}
    assert "in this wording" in (await post(ann, path, **wording, key="c" * 64)).text
    approved = await post(ann, path, **wording, key="b" * 64)
    assert "The tool tickets.close is approved." in approved.text
    assert await last_entries(site) == [("web:ann", "mcp_tools", {"approved": False}, {"approved": True})]
    await undo(site, ann, path)
    assert await site.parley.value("SELECT count(*) FROM mcp_tools WHERE approved") == 1


async def retry_many(site: Site, ann: httpx.AsyncClient, path: str) -> None:
    """Send more replies again than one act takes, and more than a page has buttons for."""
    await site.parley.sql(MANY_REPLIES)
    page = (await post(ann, path, act="retry-all")).text
    assert "1000 replies are sent again, 5 are left." in page
    assert "Undo them one by one" in page
    assert 'name="entry"' not in page
    await site.parley.sql("DELETE FROM outbox WHERE adapter = 'slack'")


async def test_replies_that_failed_are_sent_again(site: Site) -> None:
    await make_person(site, "ann", "admin")
    # Of an adapter that this process does not have, so that nobody sends it meanwhile.
    await site.parley.sql(FAILED_REPLIES, hostile=HOSTILE)
    path = "/admin/outbox"
    async with site.browser("ann") as ann:
        page = (await ann.get(path)).text
        assert HOSTILE not in page
        assert "A secret word" not in page
        first, second = [row.id for row in await site.parley.sql("SELECT id FROM outbox ORDER BY id")]
        retried = await post(ann, path, act="retry", key=str(first))
        assert f"The reply {first} is sent again." in retried.text
        assert await last_entries(site) == [("web:ann", "outbox", {"status": "failed"}, {"status": "pending"})]
        assert "has its old values again" in await undo(site, ann, path)
        assert await site.parley.value("SELECT count(*) FROM outbox WHERE status = 'failed'") == 2
        # What the program does with replies is no change of an admin's.
        entries = await site.parley.value("SELECT count(*) FROM audit_log")
        await site.parley.sql("SELECT parley_mark_delivered(ARRAY[CAST(:id AS bigint)], ARRAY['m1'])", id=first)
        assert await site.parley.value("SELECT count(*) FROM audit_log") == entries
        await site.parley.sql("UPDATE outbox SET status = 'failed' WHERE id = :id", id=first)
        assert "2 replies are sent again." in (await post(ann, path, act="retry-all")).text
        (row,) = await site.parley.sql("SELECT attempts, claimed_until, error FROM outbox WHERE id = :id", id=second)
        # Its claims are counted on, so that a sender of before knows by the number that it is another's.
        assert (row.attempts, row.claimed_until) == (4, None)
        await retry_many(site, ann, path)
        refusals = {
            str(first): f"The reply {first} has not failed: it is pending.",
            "999": "There is no reply 999.",
            "x": "is no whole number",
            "": "Name the reply.",
        }
        for key, sentence in refusals.items():
            refusal = await post(ann, path, page="/admin/personas/new", act="retry", key=key)
            assert (refusal.status_code, sentence in refusal.text) == (422, True), key
        assert (await post(ann, path, page="/admin/personas/new", act="send")).status_code == 404
