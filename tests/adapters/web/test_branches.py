"""Branches of chats, over HTTP as the page does it: answers are asked for again, messages said otherwise."""

import asyncio
from typing import Any

import httpx

from tests.adapters.web.conftest import Site
from tests.adapters.web.test_chat import messages_of, sends
from tests.adapters.web.test_messages import refusal
from tests.standins.openai_api.script import gated_answer
from tests.support.eventually import PATIENCE
from tests.support.pictures import picture
from tests.support.summaries import is_summary, pause, remembered, summarise, summarised_by


async def begins(
    browser: httpx.AsyncClient, turn: int, content: str | None = None, event: str = "b1"
) -> httpx.Response:
    """Say something in place of a turn, and wait for its answer."""
    body: dict[str, Any] = {"turn_id": turn, "event_id": event} | ({"content": content} if content else {})
    branch = await browser.post("/page/chats/c1/branches", json=body)
    if branch.status_code == 200:
        await browser.get("/chat/events", params={"event_id": event})
    return branch


async def chooses(browser: httpx.AsyncClient, turn: int) -> int:
    """Choose the branch of a turn."""
    return (await browser.put("/page/chats/c1/branch", json={"turn_id": turn})).status_code


async def read_page(browser: httpx.AsyncClient) -> list[tuple[str, str, str]]:
    """Return what the page shows of each turn: what was said, the answer, and which of how many it is."""
    return [
        (
            turn["events"][0]["content"],
            turn["events"][-2]["content"],
            f"{turn['branch']['place']}/{turn['branch']['total']}" if turn["branch"] else "",
        )
        for turn in (await messages_of(browser, "c1"))["turns"]
    ]


async def turns_of(browser: httpx.AsyncClient) -> list[Any]:
    """Return the turns that the page shows."""
    turns: list[Any] = (await messages_of(browser, "c1"))["turns"]
    return turns


def request_of(site: Site) -> Any:
    """Return the last request to the model for an answer."""
    return next(entry.body for entry in reversed(site.parley.model.requests) if not is_summary(entry.body))


def prompt_of(site: Site) -> str:
    """Return the texts of that request."""
    return "\n".join(str(message["content"]) for message in request_of(site)["messages"])


async def test_a_branch_is_said_chosen_and_left_and_the_model_sees_no_other(site: Site) -> None:
    async with site.browser("ann") as ann:
        for number, content in enumerate(("about tea", "I have a red pot", "and two cups")):
            await sends(ann, content, event_id=f"e{number}")
        await site.parley.sql("UPDATE users SET token_budget_monthly = NULL")
        first, second, _ = [turn["turn_id"] for turn in await turns_of(ann)]
        await begins(ann, second, "I have a blue kettle", "b1")
        after_edit = prompt_of(site)
        await begins(ann, second, "I have a blue kettle", "b1")
        await begins(ann, (await turns_of(ann))[-1]["turn_id"], event="b2")
        again = await read_page(ann)
        await chooses_to_and_fro(site, ann, second=second, edited=(await turns_of(ann))[-1]["branch"]["previous"])
        await begins(ann, first, "about coffee", "b3")
        from_the_beginning = await read_page(ann)

    assert ("red pot" in after_edit, "two cups" in after_edit, "about tea" in after_edit) == (False, False, True)
    assert [entry[0] for entry in again] == ["about tea", "I have a blue kettle"]
    assert again[1][2] == "3/3"
    assert from_the_beginning == [("about coffee", "You said: about coffee", "2/2")]
    assert not any(words in prompt_of(site) for words in ("red pot", "about tea", "kettle"))
    assert await site.parley.value("SELECT count(*) FROM messages WHERE role = 'user'") == 7


async def chooses_to_and_fro(site: Site, ann: httpx.AsyncClient, *, second: int, edited: int) -> None:
    """Choose the first branch, go on in it, leave it, and come back."""
    assert await chooses(ann, second) == 200
    assert await read_page(ann) == [
        ("about tea", "You said: about tea", ""),
        ("I have a red pot", "You said: I have a red pot", "1/3"),
        ("and two cups", "You said: and two cups", ""),
    ]
    await sends(ann, "which colour?", event_id="e4")
    prompt = prompt_of(site)
    assert ("kettle" in prompt, "red pot" in prompt, "two cups" in prompt) == (False, True, True)
    assert (await ann.get("/page/search", params={"words": "kettle"})).json()["matches"] == []
    assert "kettle" not in (await ann.get("/page/chats/c1/export")).text
    assert await chooses(ann, edited) == 200
    assert [(entry[0], entry[2]) for entry in await read_page(ann)] == [
        ("about tea", ""),
        ("I have a blue kettle", "2/3"),
    ]
    assert await chooses(ann, second) == 200
    said = [entry[0] for entry in await read_page(ann)]
    assert said == ["about tea", "I have a red pot", "and two cups", "which colour?"]


async def test_what_is_left_is_neither_remembered_nor_summarised_until_it_is_chosen_again(site: Site) -> None:
    site.parley.model.play(summarised_by(lambda text: "Ann spoke of a walrus." if "walrus" in text else "Ann spoke."))
    async with site.browser("ann") as ann:
        await sends(ann, "hello there", event_id="e1")
        await sends(ann, "my walrus is called Rex", event_id="e2")
        turn = (await turns_of(ann))[-1]["turn_id"]
        await pause(site.parley)
        await summarise(site.parley)
        summary = await site.parley.value("SELECT summary FROM conversations")
        await begins(ann, turn, "my otter is called Max", "b1")
        left = prompt_of(site)
        await pause(site.parley)
        await summarise(site.parley)
        other_summary = await site.parley.value("SELECT summary FROM conversations")
        others = [memory["content"] for memory in await remembered(site.parley)]
        await chooses(ann, turn)
        own = [memory["content"] for memory in await remembered(site.parley)]

    assert "walrus" in summary
    assert "walrus" not in left
    assert "walrus" not in (other_summary or "")
    assert not any("walrus" in content for content in others)
    assert any("otter" in content for content in others)
    assert any("walrus" in content for content in own)
    assert not any("otter" in content for content in own)


async def test_files_stay_with_a_message_that_is_said_otherwise(site: Site) -> None:
    async with site.browser("ann") as ann:
        files = {"files": ("pot.png", picture(), "image/png")}
        await ann.post("/chat/messages", data={"chat": "c1", "event_id": "e1", "content": "look"}, files=files)
        turn = (await turns_of(ann))[0]["turn_id"]
        await begins(ann, turn, event="b1")
        again = request_of(site)
        await begins(ann, (await turns_of(ann))[0]["turn_id"], "what is it?", "b2")
        edited = await turns_of(ann)

    assert "image_url" in str(again["messages"][-1])
    assert "image_url" in str(request_of(site)["messages"][-1])
    assert edited[0]["events"][0]["content"].startswith("what is it?\n\n[Attached files:]\n- pot.png")
    assert [file["filename"] for file in edited[0]["events"][0]["files"]] == ["pot.png"]


async def test_two_windows_begin_no_two_branches_and_strangers_none(site: Site) -> None:
    async with site.browser("ann") as ann, site.browser("bob") as bob:
        await sends(ann, "hello")
        await sends(bob, "hi", event_id="e2")
        turn = (await turns_of(ann))[0]["turn_id"]
        wrong: list[Any] = [{"turn_id": turn}, {"turn_id": turn, "event_id": "x", "content": " "}, {"turn_id": "1"}, []]
        for body in wrong:
            assert (await ann.post("/page/chats/c1/branches", json=body)).status_code == 400
        command = await begins(ann, turn, "/help")
        await sends(ann, "elsewhere", chat="c2", event_id="e3")
        taken = await ann.post("/page/chats/c1/branches", json={"turn_id": turn, "event_id": "e3"})
        assert len(await turns_of(ann)) == 1
        missing = [await begins(ann, 2**40), await begins(bob, turn, "mine"), await begins(bob, turn)]
        chosen = await bob.put("/page/chats/c1/branch", json={"turn_id": turn})
        gate, gated = gated_answer("At last.")
        site.parley.model.play(gated)
        bodies = [{"turn_id": turn, "event_id": f"b{number}"} for number in (1, 2)]
        both = await asyncio.gather(*(ann.post("/page/chats/c1/branches", json=body) for body in bodies))
        busy = await chooses(ann, turn)
        arrivals = asyncio.create_task(ann.get("/page/chats/c1/arrivals"))
        told = (await asyncio.wait_for(arrivals, PATIENCE)).text
        gate.set()
        event = "b1" if both[0].status_code == 200 else "b2"
        await ann.get("/chat/events", params={"event_id": event})
        turns = await turns_of(ann)

    assert refusal(taken).startswith("409 event_taken")
    assert refusal(command).startswith("400 invalid_request: content")
    assert {refusal(answer) for answer in (*missing, chosen)} == {"404 not_found: There is no such message."}
    assert sorted(answer.status_code for answer in both) == [200, 409]
    assert busy == 409
    assert "event: branch" in told
    assert [(turn["branch"]["place"], turn["branch"]["total"]) for turn in turns] == [(2, 2)]
