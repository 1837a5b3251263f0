"""Titles of chats by the model of summaries, as the list of the page shows them."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from adapters.cli.compose import list_periodic_tasks
from agent.memory.summaries.titles import TitleWriter, to_title
from shared.clock import SystemClock
from tests.adapters.web.browser import open_window
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_branches import begins, turns_of
from tests.adapters.web.test_chat import sends
from tests.standins.openai_api import Answer, Fault
from tests.standins.openai_api.script import Body, Reply, last_user_text
from tests.support.eventually import PATIENCE, eventually
from tests.support.parley import Parley

NAMED = pytest.mark.settings(summary_model="openai/namer")
HOSTILE = '## "**<img src=x onerror=alert(1)> Tea\u202e\x07 `pots`** [here](javascript:alert(1))"\nand more'
CLEANED = "img src=x onerror=alert(1) Tea pots here"


def is_title(body: Body) -> bool:
    return str(body["messages"][0]["content"]).startswith("You name conversations")


def title_reply(title: Reply | str) -> Any:
    """Return a script that names chats like this, and answers all else."""

    def play(body: Body, _number: int) -> Reply:
        if not is_title(body):
            return Answer("Noted.")
        return Answer(title) if isinstance(title, str) else title

    return play


def requests_for_titles(parley: Parley) -> list[str]:
    return [last_user_text(entry.body) for entry in parley.model.requests if is_title(entry.body)]


async def name_chats(parley: Parley, *, times: int = 1) -> None:
    """Let a worker beside the running one name what is due, a minute after the last time."""
    app = parley.app
    for _ in range(times):
        await parley.sql("UPDATE conversation_titles SET tried_at = tried_at - interval '2 minutes'")
        await TitleWriter(app.database, app.models.router, SystemClock(), tell=app.events.notifier.tell_list).run()
    await eventually(
        lambda: parley.value("SELECT every(summary_claimed_until <= now()) IS NOT false FROM conversations")
    )


@NAMED
async def test_a_title_appears_in_all_windows_and_stays_text(site: Site, chromium: Browser) -> None:
    site.parley.model.play(title_reply(HOSTILE))
    async with open_window(chromium, site.link("ann")) as writer, open_window(chromium, site.link("ann")) as other:
        await writer.says("how do I brew oolong?")
        await expect(writer.answer().locator(".text")).to_have_text("Noted.")
        await name_chats(site.parley)

        await expect(writer.page.locator("#title")).to_have_text(CLEANED)
        await expect(other.page.locator("#chats a")).to_have_text(CLEANED)
        await writer.says("and how long?")
        await expect(writer.answer().locator(".text")).to_have_text("Noted.")
        await name_chats(site.parley)
    assert len(requests_for_titles(site.parley)) == 1
    assert "how do I brew oolong?" in requests_for_titles(site.parley)[0]


@NAMED
async def test_a_title_is_paid_by_its_person_and_comes_behind_the_name_that_the_person_gives(site: Site) -> None:
    parley = site.parley
    parley.model.play(title_reply("Oolong brewing"))
    async with site.browser("ann") as ann, site.browser("bob") as bob:
        await sends(bob, "hello", chat="c1", event_id="e2")
        await parley.sql(
            "UPDATE users SET token_budget_monthly = 1 FROM user_platform_links AS link"
            " WHERE link.user_id = users.id AND platform_user_id = 'bob'"
        )
        await sends(ann, "how do I brew oolong?", chat="c1", event_id="e1")
        await ann.patch("/page/chats/c1", json={"title": "Tea"})
        await name_chats(parley)
        titles = [chat["title"] for chat in (await ann.get("/page/chats")).json()["chats"]]
        await ann.patch("/page/chats/c1", json={"title": ""})
        titles += [chat["title"] for chat in (await ann.get("/page/chats")).json()["chats"]]
        others = [chat["title"] for chat in (await bob.get("/page/chats")).json()["chats"]]

    assert (titles, others) == (["Tea", "Oolong brewing"], ["hello"])
    rows = await parley.sql(
        "SELECT platform_user_id, input_tokens > 0 FROM token_logs JOIN user_platform_links USING (user_id)"
        " WHERE purpose = 'title'"
    )
    assert [tuple(row) for row in rows] == [("ann", True)]
    assert await parley.value("SELECT coalesce(sum(tokens_reserved), 0) FROM users") == 0


@NAMED
async def test_without_a_title_a_chat_is_called_after_its_first_message(site: Site) -> None:
    counts = []
    async with site.browser("ann") as ann:
        await sends(ann, "about tea", chat="c1", event_id="e1")
        for reply in (Fault(400), Answer("**"), Answer("A title that was cu", finish_reason="length"), Answer("Late")):
            site.parley.model.play(title_reply(reply))
            await name_chats(site.parley)
            counts.append(len(requests_for_titles(site.parley)))
        chats = (await ann.get("/page/chats")).json()["chats"]

    assert [chat["title"] for chat in chats] == ["about tea"]
    assert counts[0] < counts[1] < counts[2] == counts[3]


@NAMED
async def test_a_branch_that_is_left_and_a_chat_that_is_erased_get_no_title(site: Site) -> None:
    parley, gate = site.parley, asyncio.Event()

    async def play(body: Body, _number: int) -> Reply:
        if not is_title(body):
            return Answer("Noted.")
        await gate.wait()
        return Answer("Of what was left")

    parley.model.play(play)
    async with site.browser("ann") as ann:
        await sends(ann, "about tea", chat="c1", event_id="e1")
        await sends(ann, "about pots", chat="c2", event_id="e2")
        naming = asyncio.create_task(name_chats(parley))
        async with asyncio.timeout(PATIENCE):
            while len(requests_for_titles(parley)) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await begins(ann, (await turns_of(ann))[0]["turn_id"], "about coffee")
        await ann.delete("/page/chats/c2")
        gate.set()
        await naming
        chats = (await ann.get("/page/chats")).json()["chats"]

    assert [chat["title"] for chat in chats] == ["about tea"]
    assert [tuple(row) for row in await parley.sql("SELECT title, attempts FROM conversation_titles")] == [(None, 1)]
    # What the call for the other branch holds is charged by who reads the chat next.
    reserved = await parley.sql("SELECT tokens_reserved, (SELECT sum(tokens) FROM budget_reservations) FROM users")
    assert reserved[0][0] == reserved[0][1]
    await name_chats(parley)
    estimates = await parley.sql("SELECT input_tokens FROM token_logs WHERE purpose = 'title' AND is_estimated")
    assert [row.input_tokens for row in estimates] == [reserved[0][0]]
    assert await parley.value("SELECT sum(tokens_reserved) FROM users") == 0


@NAMED
async def test_a_title_goes_with_what_it_was_made_of(site: Site) -> None:
    parley = site.parley
    parley.model.play(title_reply("Secret of Falcon"))
    async with site.browser("ann") as ann:
        await sends(ann, "about Falcon", chat="c1", event_id="e1")
        await name_chats(parley)
        parley.model.play(title_reply("Tea"))
        await begins(ann, (await turns_of(ann))[0]["turn_id"], "about tea")
        left = await parley.sql("SELECT title FROM conversation_titles WHERE title <> 'Tea'")
        await name_chats(parley)
        again = [chat["title"] for chat in (await ann.get("/page/chats")).json()["chats"]]
        await parley.sql("SELECT parley_forget_turns(user_id, ARRAY[id]) FROM turns")
        # What is said while nothing is to be remembered is forgotten, too: no model is asked, and none is waited for.
        await parley.sql("UPDATE conversations SET is_memory_paused = true")
        await sends(ann, "about Merlin", chat="c1", event_id="e2")
        await name_chats(parley)
        attempts = await parley.value("SELECT count(*) FROM conversation_titles")
        await parley.sql("UPDATE conversations SET is_memory_paused = false")
        await sends(ann, "about pots", chat="c1", event_id="e3")
        await name_chats(parley)

    assert (left, again, attempts) == ([], ["Tea"], 0)
    requests = requests_for_titles(parley)
    assert len(requests) == 3
    assert "Falcon" not in requests[1]
    assert "about pots" in requests[2]
    assert not any(text in requests[2] for text in ("tea", "Merlin"))


@NAMED
async def test_a_turn_of_many_messages_and_a_window_that_is_too_small_end_the_attempt(site: Site) -> None:
    parley = site.parley
    parley.model.play(title_reply("Long"))
    async with site.browser("ann") as ann:
        await sends(ann, "about tea", chat="c1", event_id="e1")
        await parley.sql(
            "INSERT INTO messages (turn_id, conversation_id, seq, role, content)"
            " SELECT id, conversation_id, 10 + n, 'assistant', repeat('word ', 200)"
            " FROM turns CROSS JOIN generate_series(1, 40) AS n"
        )
        parley.model.windows |= {"namer": 40, "stub": 40}
        await name_chats(parley)

    (attempt,) = await parley.sql("SELECT title, attempts FROM conversation_titles")
    assert tuple(attempt) == (None, 1)
    assert await parley.value("SELECT sum(tokens_reserved) FROM users") == 0
    assert len(requests_for_titles(parley)[0]) < 7000


async def test_without_a_model_of_summaries_no_chat_is_named(site: Site) -> None:
    async with site.browser("ann") as ann:
        await sends(ann, "about tea", chat="c1", event_id="e1")
        chats = (await ann.get("/page/chats")).json()["chats"]

    assert [chat["title"] for chat in chats] == ["about tea"]
    assert "titles" not in {task.name for task in list_periodic_tasks(site.parley.app)}


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Oolong brühen.", "Oolong brühen"),
        ("\n\n# Title: *snake_case* in `Python`\n", "snake_case in Python"),
        ("1. First", "First"),
        ("„Tee für zwei“", "Tee für zwei"),
        ("[Tea](https://example.org)", "Tea"),
        ("x" * 80, "x" * 59 + "…"),
        ("👩\u200d🚀 spacewalk\u202e\x1b[31m\u200b", "👩\u200d🚀 spacewalk[31m"),
        ("---\n...", ""),
        ("![" * 5_000 + "\nLate", ""),
    ],
)
def test_a_title_is_one_line_of_plain_text(answer: str, title: str) -> None:
    assert to_title(answer) == title
