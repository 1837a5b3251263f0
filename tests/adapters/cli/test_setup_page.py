"""The owner names the first model on the page: it is tried, written into `.env`, and Parley starts again with it."""

import asyncio
import re
import socket
from dataclasses import replace

import httpx
from playwright.async_api import Browser, Page, expect

from tests.adapters.cli.shell import Shell
from tests.adapters.cli.test_running import read_until, running_parley, stop
from tests.adapters.web.admin.conftest import look
from tests.adapters.web.browser import browser_address, chromium, open_window
from tests.adapters.web.conftest import BROWSER, BY_HAND
from tests.standins.openai_api import Answer, Fault, OpenAIStub

__all__ = ["browser_address", "chromium"]

KEY = "opensesame-of-ann"
ADMIN = """
SELECT parley_make_user('web', 'eve', 'Eve');
SELECT parley_set_permission(admin.find_user('web', 'eve'), 'admin');
"""
AGE = "UPDATE web_sessions SET created_at = now() - interval '{}'"
REFUSED = Fault(401, {"error": {"message": f"There is no key {KEY}."}})


async def test_an_owner_names_the_first_model_on_the_page(shell: Shell, chromium: Browser) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    # A fork of the tests could not begin again.
    cold, file = replace(shell, is_warm=False), shell.folder / ".env"
    async with OpenAIStub([REFUSED, *[Answer("ready")] * 3]) as models:
        with running_parley(cold, "run", until="Ctrl+C stops it", PORT=port, WORKERS="1") as (running, _):
            await find_nothing_as_admin(shell, port)
            link = await asyncio.to_thread(shell.says, "link", PORT=port)
            async with open_window(chromium, link.strip()) as window:
                window.expected_complaint = "Failed to load resource"
                page = window.page
                await try_and_enter(shell, page, models.base_url)
                await asyncio.to_thread(read_until, running, "Ctrl+C stops it")
                await page.wait_for_url(re.compile("/(#.*)?$"))
                await expect(page.locator("#welcome")).to_be_visible()
                await expect(page.locator("#no-model")).to_be_hidden()
                later = await page.goto(f"http://127.0.0.1:{port}/admin/setup")
                assert later is not None
                assert later.status == 404
            await asyncio.to_thread(stop, running)
            assert running.stderr is not None
            assert KEY not in running.stderr.read()
    assert f"OPENAI_API_KEY='{KEY}'" in file.read_text() or f"OPENAI_API_KEY={KEY}" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert KEY not in shell.says("psql", "-At", "-c", "SELECT audit_log::text FROM audit_log")
    file.unlink()


async def try_and_enter(shell: Shell, page: Page, address: str) -> None:
    """Look at the form; be refused with an old login, and with a key that the server refuses and repeats; go on."""
    await page.get_by_role("link", name="Choose a model here").click()
    assert await look(page, "setup") == []
    await psql(shell, AGE.format("1 hour"))
    await enter(page, address)
    await expect(page.get_by_role("alert")).to_contain_text("Sign in once more")
    await psql(shell, AGE.format("1 minute"))
    await enter(page, address)
    await expect(page.get_by_role("alert")).to_contain_text("401")
    assert KEY not in await page.content()
    assert not (shell.folder / ".env").exists()
    await expect(page.locator('[name="model"]')).to_have_value("small")
    await enter(page, address + "x" * 200_000)
    await expect(page.get_by_role("alert")).to_contain_text("at most 4000 characters")
    # What another form has set meanwhile stays.
    (shell.folder / ".env").write_text("LLM_MODELS=other/model\n")
    await enter(page, address)
    await expect(page.get_by_role("alert")).to_contain_text("A model was set meanwhile")
    assert (shell.folder / ".env").read_text() == "LLM_MODELS=other/model\n"
    (shell.folder / ".env").unlink()
    await enter(page, address)
    await expect(page.get_by_role("status")).to_contain_text("The model answers.")


async def psql(shell: Shell, statements: str) -> None:
    """Run statements as the database's owner."""
    await asyncio.to_thread(shell.says, "psql", "--superuser", "-c", statements)


async def enter(page: Page, address: str) -> None:
    """Fill in the form and send it."""
    await page.get_by_label("Another provider").check()
    await page.locator('[name="key"]').fill(KEY)
    await page.locator('[name="model"]').fill("small")
    await page.locator('[name="address"]').fill(address)
    await page.get_by_role("button", name="Try it").click()


async def find_nothing_as_admin(shell: Shell, port: str) -> None:
    """An admin, and a form without its token, get what every other address gets."""
    await psql(shell, ADMIN)
    link = (await asyncio.to_thread(shell.says, "link", "--as", "eve", PORT=port)).strip()
    async with httpx.AsyncClient(headers=BROWSER, base_url=f"http://127.0.0.1:{port}") as eve:
        assert (await eve.get(link, headers=BY_HAND)).status_code == 200
        assert (await eve.get("/page/state")).json()["can_set_up"] is False
        assert (await eve.get("/admin/setup")).status_code == 404
        assert (await eve.post("/admin/setup", data={"act": "model", "token": "x"})).status_code == 404
