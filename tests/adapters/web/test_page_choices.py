"""What a person may choose for a chat: who answers, and by what model."""

import asyncio
import json
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from adapters.web.page.choices import NOT_OPEN
from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_chat import sends
from tests.adapters.web.test_chats import WAITING
from tests.adapters.web.test_page_chats import examine
from tests.support.connections import connected

pytestmark = pytest.mark.settings(llm_models=("openai/stub", "openai/large", "openai/closed"))
LATEST = """
SELECT persona.name, turns.model, place.persona_id = turns.persona_id AS is_last FROM turns
JOIN conversations AS place ON place.id = conversation_id LEFT JOIN personas AS persona ON persona.id = turns.persona_id
ORDER BY turns.id DESC LIMIT 1
"""


async def latest(site: Site) -> tuple[str | None, str, bool]:
    """Return who answered last, by what model, and whether the conversation names that persona."""
    ((name, model, is_last),) = await site.parley.sql(LATEST)
    return name, model, is_last


async def define(site: Site, name: str, **more: Any) -> int:
    """Make a persona that says who it is, and return its number."""
    named = "".join(f", {key} => :{key}" for key in more)
    await site.parley.sql(f"SELECT admin.define_persona(:name, 'You are ' || :name || '.'{named})", name=name, **more)
    ((number,),) = await site.parley.sql("SELECT id FROM personas WHERE name = :name", name=name)
    return int(number)


async def test_a_person_chooses_who_answers_in_a_chat_and_by_what_model(site: Site, chromium: Browser) -> None:
    async with open_window(chromium, site.link("ann")) as window:
        await window.says("hello")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        await expect(window.page.get_by_label("Who answers in this chat")).to_be_hidden()
    for name, more in {
        "Sage": {"platform": "web"},
        "Poet": {"open_to": "guest"},
        "Auditor": {"open_to": "admin"},
    }.items():
        await define(site, name, **more)
    await site.parley.sql("SELECT admin.open_model('openai/large'), admin.open_model('openai/closed', 'owner')")
    async with open_window(chromium, site.link("ann"), viewport={"width": 360, "height": 780}) as window:
        page = window.page
        persona, model = page.get_by_label("Persona"), page.get_by_label("Model", exact=True)
        await expect(persona.locator("option")).to_have_text(["Sage", "Poet"])
        await expect(model.locator("option")).to_have_text(["openai/stub", "openai/large"])
        await persona.select_option("Poet")
        await model.select_option("openai/large")
        await window.says("hello")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        assert await latest(site) == ("Poet", "openai/large", True)
        assert "You are Poet." in json.dumps(site.parley.model.requests[-1].body["messages"][0])
        await examine(page, "choices-360")

        await page.reload()
        await expect(persona.locator("option:checked")).to_have_text("Poet")
        await expect(model.locator("option:checked")).to_have_text("openai/large")
        await model.select_option("openai/stub")
        await window.says("/persona")
        await expect(window.answer()).to_contain_text("Poet answers here")
        await window.says("and now?")
        await expect(page.locator(".agent[aria-busy=false]")).to_have_count(3)
        assert await latest(site) == ("Poet", "openai/stub", True)

        await page.locator("#new-chat").dispatch_event("click")
        await expect(persona.locator("option:checked")).to_have_text("Sage")


async def test_what_is_chosen_before_the_past_of_the_chat_has_arrived_counts(site: Site, chromium: Browser) -> None:
    await site.parley.sql("SELECT admin.open_model('openai/large')")
    await define(site, "Sage", platform="web")
    await define(site, "Poet", open_to="guest")
    past, chosen = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        past.set()
        await chosen.wait()
        await route.continue_()

    async with open_window(chromium, site.link("ann")) as window:
        page = window.page
        persona = page.get_by_label("Persona")
        await page.route("**/page/chats/*/messages", hold)
        await page.reload()
        await past.wait()
        await expect(persona.locator("option")).to_have_text(["Sage", "Poet"])
        await persona.select_option("Poet")
        chosen.set()
        await page.get_by_label("Model", exact=True).select_option("openai/large")
        await window.says("hello")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        await expect(persona.locator("option:checked")).to_have_text("Poet")
        assert await latest(site) == ("Poet", "openai/large", True)


async def test_what_is_chosen_counts_for_the_next_message_and_in_its_order_while_the_server_takes_its_time(
    site: Site, chromium: Browser
) -> None:
    await site.parley.sql("SELECT admin.open_model('openai/large')")
    await define(site, "Sage", platform="web")
    await define(site, "Poet", open_to="guest")
    bodies, first, answered = [], asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        bodies.append(route.request.post_data_json)
        first.set()
        await answered.wait()
        await route.continue_()

    async with open_window(chromium, site.link("ann")) as window:
        page = window.page
        model = page.get_by_label("Model", exact=True)
        await window.says("hello")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        await page.route("**/page/chats/*/choices", hold)
        await model.select_option("openai/large")
        await first.wait()
        await window.says("and now?")
        await expect(page.locator(".agent[aria-busy=false]")).to_have_count(2)
        assert (await latest(site))[1] == "openai/large"

        await model.select_option("openai/stub")
        await page.get_by_label("Persona").select_option("Poet")
        await page.evaluate("fetch('/page/state')")
        assert bodies == [{"model": "openai/large"}]
        async with page.expect_response(lambda response: "persona_id" in (response.request.post_data or "")):
            answered.set()
        await page.reload()
        await expect(model.locator("option:checked")).to_have_text("openai/stub")
        await expect(page.get_by_label("Persona").locator("option:checked")).to_have_text("Poet")


async def test_what_the_server_was_not_told_of_is_not_shown_as_chosen(site: Site, chromium: Browser) -> None:
    await site.parley.sql("SELECT admin.open_model('openai/large')")
    await define(site, "Sage", platform="web")
    await define(site, "Poet", open_to="guest")
    both, routes = asyncio.Event(), []

    async def hold(route: Route) -> None:
        routes.append(route)
        await both.wait()
        await route.abort()

    async with open_window(chromium, site.link("ann")) as window:
        page = window.page
        persona, model = page.get_by_label("Persona"), page.get_by_label("Model", exact=True)
        await window.says("hello")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        window.expected_complaint = "net::ERR_FAILED"
        await page.route("**/page/chats/*/choices", hold)
        await model.select_option("openai/large")
        await persona.select_option("Poet")
        both.set()
        await expect(persona.locator("option:checked")).to_have_text("Sage")
        await expect(model.locator("option:checked")).to_have_text("openai/stub")
        assert len(routes) == 2


async def test_what_was_closed_meanwhile_is_not_shown_as_chosen(site: Site, chromium: Browser) -> None:
    await site.parley.sql("SELECT admin.open_model('openai/large')")
    async with open_window(chromium, site.link("ann")) as window:
        model = window.page.get_by_label("Model", exact=True)
        await window.says("hello")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        await site.parley.sql("SELECT admin.open_model('openai/large', NULL)")
        window.expected_complaint = "404 (Not Found)"
        await model.select_option("openai/large")
        await expect(window.page.locator("#box-note")).to_have_text(NOT_OPEN)
        await expect(model.locator("option:checked")).to_have_text("openai/stub")


async def test_a_persona_that_is_removed_meanwhile_is_not_there(site: Site) -> None:
    poet = await define(site, "Poet", open_to="guest")
    async with site.browser() as ann, connected(site.parley.app.database.address) as admin:
        await sends(ann, "hello")
        async with admin.transaction():
            await admin.execute("DELETE FROM personas")
            choosing = asyncio.create_task(ann.put("/page/chats/c1/choices", json={"persona_id": poet}))
            while not await admin.fetchval(WAITING):  # noqa: ASYNC110  # the database tells nobody
                await asyncio.sleep(0.02)
        refusal = await choosing

    assert (refusal.status_code, refusal.json()["error"]["message"]) == (404, NOT_OPEN)


async def test_what_is_not_open_is_not_there_and_counts_no_more(site: Site) -> None:
    await define(site, "Sage", is_default=True)
    poet, auditor = await define(site, "Poet", open_to="user"), await define(site, "Auditor", open_to="admin")
    await site.parley.sql("SELECT admin.open_model('openai/large'), admin.open_model('openai/elsewhere')")
    async with site.browser() as ann, site.browser("eve") as eve:
        refusal = await sends(ann, "hello", choices=json.dumps({"persona_id": poet}))
        assert (refusal.status_code, refusal.json()["error"]["message"]) == (404, NOT_OPEN)
        assert await site.parley.sql("SELECT id FROM conversations") == []
        await site.parley.sql("UPDATE users SET permission_level = 'user'")
        wrong: list[dict[str, Any]] = [{"persona_id": auditor}, {"persona_id": 2**40}]
        wrong += [{"model": "openai/closed"}, {"model": "openai/elsewhere"}]
        await sends(ann, "hello", event_id="e2", choices=json.dumps({"persona_id": poet, "model": "openai/large"}))
        assert await latest(site) == ("Poet", "openai/large", True)
        for choices in wrong:
            assert (await ann.put("/page/chats/c1/choices", json=choices)).status_code == 404
        assert (await eve.put("/page/chats/c1/choices", json={"persona_id": None})).status_code == 404
        assert (await ann.put("/page/chats/c1/choices", json={"persona_id": "1"})).status_code == 400
        read = await ann.get("/page/chats/c1/messages")
        assert read.json()["choices"] == {"persona_id": poet, "model": "openai/large"}

        await site.parley.sql("UPDATE personas SET open_to = 'admin'")
        await site.parley.sql("SELECT admin.open_model('openai/large', NULL)")
        await sends(ann, "and now?", event_id="e3")
        assert await latest(site) == ("Sage", "openai/stub", True)
        state = (await ann.get("/page/state")).json()
        assert (state["personas"], state["models"]) == ([], [])
