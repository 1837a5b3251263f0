"""Questions that need a yes, over HTTP and on the page."""

import pytest
from playwright.async_api import Browser, expect

from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_chat import sends
from tests.adapters.web.test_messages import frames
from tests.standins.openai_api import Answer
from tests.support.office import MAIL, Office, age, calls, new_office, parley_of_office, statuses

__all__ = ["new_office", "parley_of_office"]

ASKED = "Send “See you at eight.” to bob?\n\n(Answer yes or no within ten minutes.)"


async def test_an_answer_that_asks_says_so_and_is_answered_by_its_id(site: Site, office: Office) -> None:
    site.parley.model.play([calls(MAIL), Answer("Sent.")])
    question = (await site.posts("mail Bob")).json()
    assert (question["content"], list(question["confirmation"])) == (ASKED, ["id"])
    yes = {"id": question["confirmation"]["id"], "approved": True}

    answer = (await site.client.post("/v1/messages", json=_body() | {"confirmation": yes})).json()
    again = (await site.posts("/budget", confirmation=yes)).json()

    assert (answer["content"], len(office.sent)) == ("Sent.", 1)
    assert "confirmation" not in answer
    assert answer["tool_calls_made"] == [{"tool": "office.send", "args": MAIL[1], "result": {"sent_to": "bob"}}]
    assert (again["error"], again["finished"]) == ("confirmation_closed", False)


def _body() -> dict[str, str]:
    return {"platform": "test", "platform_user_id": "ann", "platform_channel_id": "dm"}


async def test_a_no_by_its_id_leaves_it(site: Site, office: Office) -> None:
    site.parley.model.play([calls(MAIL), Answer("I leave it.")])
    question = (await site.posts("mail Bob")).json()

    answer = (await site.posts("", confirmation={"id": question["confirmation"]["id"], "approved": False})).json()

    assert (answer["content"], office.sent, await statuses(site.parley)) == ("I leave it.", [], ["denied"])
    assert await site.parley.value("SELECT content FROM messages WHERE role = 'user' ORDER BY id DESC LIMIT 1") == "no"


@pytest.mark.parametrize("change", [{"platform_user_id": "eve"}, {"platform_channel_id": "other"}, {"platform": "x"}])
async def test_an_id_of_somebody_else_or_of_another_place_is_as_good_as_none(
    site: Site, office: Office, change: dict[str, str]
) -> None:
    site.parley.model.play([calls(MAIL)])
    question = (await site.posts("mail Bob")).json()

    theirs = await site.posts("yes", **change, confirmation={"id": question["confirmation"]["id"], "approved": True})
    none = await site.posts("yes", **change, confirmation={"id": 2**63 - 1, "approved": True})

    assert (theirs.status_code, theirs.json()["content"]) == (200, none.json()["content"])
    assert (theirs.json()["error"], office.sent) == ("confirmation_closed", [])


async def test_the_events_of_a_question_name_its_choices_and_id(site: Site) -> None:
    site.parley.model.play([calls(MAIL)])

    streamed = await site.client.post(
        "/v1/messages", json=_body() | {"content": "mail Bob"}, headers={"Accept": "text/event-stream"}
    )

    message = dict(frames(streamed.text))["message"]
    assert (message["content"], message["choices"]) == (ASKED, ["yes", "no"])
    assert message["confirmation"] == {"id": await site.parley.value("SELECT id FROM confirmations")}


async def test_a_client_of_the_openai_interface_answers_with_the_word(site: Site, office: Office) -> None:
    site.parley.model.play([calls(MAIL), Answer("Sent.")])
    history = [{"role": "user", "content": "mail Bob"}]

    for answer in (ASKED, "Sent."):
        body = {"model": "parley", "messages": history, "user": "ann"}
        content = (await site.client.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]["content"]
        assert content == answer
        history += [{"role": "assistant", "content": content}, {"role": "user", "content": "yes"}]

    assert len(office.sent) == 1


async def test_the_page_sends_the_id_with_the_word(site: Site, office: Office) -> None:
    site.parley.model.play([calls(MAIL), Answer("Bob is a friend."), Answer("Sent.")])
    async with site.browser() as browser:
        await sends(browser, "mail Bob", event_id="e1")
        await sends(browser, "who is he?", event_id="e2")
        number = str(await site.parley.value("SELECT id FROM confirmations"))

        response = await sends(browser, "yes", event_id="e3", confirmation=number)
        wrong = await sends(browser, "yes", event_id="e4", confirmation="many")

    assert (dict(frames(response.text))["message"]["content"], len(office.sent)) == ("Sent.", 1)
    assert wrong.json()["error"]["field"] == "confirmation"


async def test_a_click_on_a_button_answers(site: Site, office: Office, chromium: Browser) -> None:
    site.parley.model.play([calls(MAIL), Answer("Sent.")])
    async with open_window(chromium, site.link("ann")) as window:
        await window.says("mail Bob")
        await expect(window.answer().locator(".choice")).to_have_text(["yes", "no"])
        await expect(window.answer().locator(".tool-state")).to_have_class("tool-state waiting")
        await expect(window.answer().locator(".tool-name")).to_have_text("Using send (office)")
        await window.page.reload()
        await window.page.locator(".choice", has_text="yes").click()

        await expect(window.page.locator(".person .bubble").last).to_have_text("yes")
        await expect(window.answer().locator(".text")).to_have_text("Sent.")
        await expect(window.answer().locator(".tool-state")).to_have_class("tool-state done")
        await expect(window.page.locator(".choice")).to_have_count(0)
        await window.page.reload()
        await expect(window.answer().locator(".text")).to_have_text("Sent.")
        await expect(window.page.locator(".choice")).to_have_count(0)

    assert len(office.sent) == 1


async def test_a_click_that_comes_too_late_is_told_so(site: Site, office: Office, chromium: Browser) -> None:
    site.parley.model.play([calls(MAIL)])
    async with open_window(chromium, site.link("ann")) as window:
        await window.says("mail Bob")
        await expect(window.answer().locator(".choice")).to_have_count(2)
        await age(site.parley, 10)
        await window.page.locator(".choice", has_text="yes").click()

        await expect(window.answer().locator(".text")).to_contain_text("Your answer came too late")

    assert office.sent == []


async def test_choices_of_a_question_of_the_models_are_buttons_too(site: Site, chromium: Browser) -> None:
    options = {"question": "Which tea?", "options": ["green", "black"]}
    site.parley.model.play([calls(("dialogue__ask_question", options)), Answer("Black it is.")])
    async with open_window(chromium, site.link("ann")) as window:
        await window.says("make me a tea")
        await window.page.locator(".choice", has_text="black").click()

        await expect(window.page.locator(".person .bubble").last).to_have_text("black")
        await expect(window.answer().locator(".text")).to_have_text("Black it is.")
