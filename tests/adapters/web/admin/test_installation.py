"""What admins see of the installation: its settings, what is remembered, its backups."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
from playwright.async_api import Browser, expect

from shared.backup.create import Installation, make_backup
from shared.backup.records import note_backup, note_failure, note_verification
from shared.files.stores import open_store
from tests.adapters.web.admin.conftest import HOSTILE, admin_window, look, make_person, post, write_scene
from tests.adapters.web.conftest import TOKEN, Site
from tests.support.connections import connected
from tests.support.source_tree import ROOT

REMEMBERED = """
INSERT INTO memories (user_id, source, scope, platform, platform_server_id, content)
SELECT $1, source, scope, platform, server, content || $2::text FROM (VALUES
    ('remembered', 'private', NULL, NULL, 'Allergic to plums. '), ('fact', 'server', 'discord', '4711', 'Has a dog. ')
) AS memory (source, scope, platform, server, content)
"""
# What a process finds in its environment, and beside it in `.env`.
ENVIRONMENT = {
    "RESEARCH_BRAVE_API_KEY": "brave-key-0815",
    "RESEARCH_SEARXNG_URL": "https://sesame@search.example/s/0pen5e5ame0pen5e5ame/?k=ey",
}
ENV_FILE = "WAVE_WIDTH=4\nGROQ_API_KEY=gsk-0815\nRESEARCH_BRAVE_URL=https://changed.example\n"
LISTING = """
import modules.research
from adapters.catalogue import list_all_parts
from shared.settings import load_settings
settings = load_settings()
open(".env", "a").write("LOG_LEVEL=DEBUG")
for part in list_all_parts(settings):
    for setting in part.settings:
        if setting.source != "default" or setting.waits:
            print(setting.name, setting.value, setting.source, setting.waits)
"""


async def test_settings_say_their_value_and_what_they_mean_and_of_secrets_only_that_they_are_set(site: Site) -> None:
    await make_person(site, "ann", "admin")
    async with site.browser("ann") as ann:
        page = (await ann.get("/admin/settings")).text
        for part in ("The program", "The platform discord", "DISCORD_TOKEN", "Largest upload."):
            assert part in page
        assert TOKEN not in page
        assert "](.." not in page
        results = (await ann.get("/admin/settings?q=largest+upload")).text
        assert "<code>MAX_BODY_MB</code>" in results
        assert "<code>3</code>" in results
        assert "WAVE_WIDTH" not in results
        assert "There is no such setting." in (await ann.get("/admin/settings?q=nosuchthing")).text


def test_a_setting_says_where_it_is_from(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(ENV_FILE)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **ENVIRONMENT}
    command = [sys.executable, "-c", LISTING]
    listing = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert listing.stdout.splitlines() == [
        "WAVE_WIDTH 4 .env False",
        "LOG_LEVEL INFO default True",
        "RESEARCH_SEARXNG_URL https://***@search.example/s/***/?*** environment False",
        "RESEARCH_BRAVE_API_KEY set environment False",
        "RESEARCH_BRAVE_URL https://changed.example .env False",
        "GROQ_API_KEY set .env False",
    ]


async def test_memories_are_counted_and_read_for_a_reason_that_the_audit_keeps(site: Site) -> None:
    await make_person(site, "ann", "admin")
    owner = await make_person(site, "olga", "owner")
    bob = await make_person(site, "bob")
    async with connected(site.parley.app.database.address) as other:
        await other.execute(REMEMBERED, bob, HOSTILE)
    await site.parley.sql("SELECT parley_pause_memory(:id, true)", id=bob)
    path = f"/admin/memory/{bob}"
    async with site.browser("ann") as ann:
        totals = (await ann.get("/admin/memory")).text
        assert "plums" not in totals
        assert "2 memories of them" in totals
        assert (await ann.get("/admin/memory/999")).status_code == 404
        assert "plums" not in (await ann.get(path)).text
        for reason in ("", "curious", "  a   b  ", "x" * 501, "why" + "\u200b\u2800\U000e0041" * 100):
            refusal = await post(ann, path, act="read", reason=reason)
            assert (refusal.status_code, "plums" in refusal.text) == (422, False)
            assert "10 to 500 characters" in refusal.text
        await read_for_a_reason(site, ann, path)
        of_owner = await post(ann, f"/admin/memory/{owner}", act="read", reason="I want to know it all.")
        assert "Only an owner may" in of_owner.text
        await site.parley.sql("UPDATE web_sessions SET created_at = now() - interval '16 minutes'")
        stale = await post(ann, path, act="read", reason="Bob has asked what we keep.")
        assert "login of the last 15 minutes" in stale.text
    assert await site.parley.value("SELECT count(*) FROM audit_log WHERE action = 'read'") == 1
    assert (await site.parley.sql("SELECT first_broken FROM parley_verify_audit()"))[0].first_broken is None


async def read_for_a_reason(site: Site, ann: httpx.AsyncClient, path: str) -> None:
    """Read what is remembered of Bob, and look at what the audit says of it."""
    memories = await post(ann, path, act="read", reason=f"Bob has asked what we keep. {HOSTILE}")
    assert "Allergic to plums." in memories.text
    assert "Has a dog." in memories.text
    assert HOSTILE not in memories.text
    assert "stands in the audit" in memories.text
    assert 'name="entry"' not in memories.text
    entry = (await site.parley.sql("SELECT * FROM admin.audit LIMIT 1"))[0]
    assert (entry.who, entry.action, entry.table, entry.name) == ("web:ann", "read", "memories", "Bob")
    assert entry.after == {"reason": f"Bob has asked what we keep. {HOSTILE}", "memories": 2}
    assert "Bob has asked" in (await ann.get("/admin/audit?table=memories&q=bob")).text
    undone = await post(ann, "/admin/audit", page=path, act="undo", entry=str(entry.id))
    assert "cannot be taken back" in undone.text


async def test_backups_are_those_that_the_command_has_noted(site: Site, tmp_path: Path) -> None:
    await make_person(site, "ann", "admin")
    address = site.parley.app.database.address
    async with site.browser("ann") as ann:
        assert "None was made by <code>parley backup</code>" in (await ann.get("/admin/backups")).text
        archive = tmp_path / "parley.zip"
        source = Installation(address, open_store(site.parley.app.settings), secrets={}, version="0")
        manifest = await make_backup(source, archive, is_live=True)
        await note_backup(address, archive, manifest)
        page = (await ann.get("/admin/backups")).text
        assert "not verified</span>" in page
        assert str(archive) in page
        await note_verification(address, manifest)
        page = (await ann.get("/admin/backups")).text
        assert 'class="banner ok"' in page
        assert "not verified</span>" not in page
        archive.unlink()
        # A name that is no UTF-8, as the file system may have it.
        await note_failure(address, tmp_path / "\udce4.zip", f"No space left at http://me:sesame@s3. {HOSTILE}")
        page = (await ann.get("/admin/backups")).text
        assert "sesame" not in page
        assert "not there any more" in page
        assert "failed: No space left at" in page
        assert HOSTILE not in page


async def test_the_pages_can_be_read_by_everybody(site: Site, chromium: Browser) -> None:
    bob = await write_scene(site)
    async with connected(site.parley.app.database.address) as other:
        await other.execute(REMEMBERED, bob, HOSTILE)
    await note_failure(site.parley.app.database.address, Path("/full.zip"), f"No space left. {HOSTILE}")
    problems = []
    async with admin_window(chromium, site, "ann", f"/admin/memory/{bob}") as window:
        page = window.page
        await page.get_by_label("Why").fill("Bob has asked what we keep of him.")
        await page.get_by_role("button", name="Read the newest").click()
        await expect(page.get_by_role("group", name="Memories")).to_contain_text("Allergic to plums.")
        problems += await look(page, "memory-person")
        for name, query in (("memory", ""), ("backups", ""), ("settings", "?q=s3")):
            await page.goto(f"{site.url}/admin/{name}{query}")
            problems += await look(page, name)
            assert await page.locator("main img").count() == 0
        # The theme that was chosen on the chat page, though the system has the other one.
        await page.emulate_media(color_scheme="light")
        await page.evaluate("localStorage.setItem('parley.theme', 'dark')")
        await page.reload()
        assert await page.evaluate("getComputedStyle(document.body).getPropertyValue('--good')") == "#2dd4bf"
        assert not problems, "\n".join(problems)
