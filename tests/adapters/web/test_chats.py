"""What people do with their chats on the page: find, name, pin, erase, export. Over HTTP, as the page does it."""

import asyncio
import itertools
import time
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest

from adapters.web.page.chat import place_of
from adapters.web.page.chats import erase_chat, find_chat, to_snippet
from agent.memory.turns import statements as remembering
from agent.personal_data.erasure import erase, request_erasure
from shared.db.driver import Session
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_chat import messages_of, sends
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import Body, gated_answer
from tests.support.connections import connected

LISTED = "INSERT INTO unremembered_turns (turn_id) SELECT id FROM turns ON CONFLICT DO NOTHING"
UNREMEMBERED = "SELECT count(*) < 6 OR NOT bool_and(is_indexed) FROM memories"
WITHOUT_VECTORS = "SELECT count(*) < 4 OR bool_or(vector_model IS NULL) FROM memories"
PAUSED = "UPDATE users SET token_budget_monthly = NULL, paused_at = now()"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


async def test_a_chat_is_named_and_pinned_and_the_list_goes_on_behind_its_cursor(site: Site) -> None:
    bodies: list[Any] = [{"title": "x" * 121}, {"is_pinned": "yes"}, {"colour": "red"}, []]
    async with site.browser("ann") as ann:
        for number in range(3):
            await sends(ann, f"about {number}", chat=f"c{number}", event_id=f"e{number}")
        await ann.patch("/page/chats/c0", json={"is_pinned": True})
        await ann.patch("/page/chats/c1", json={"title": " Tea <b> "})
        chats = (await ann.get("/page/chats")).json()["chats"]
        behind = await ann.get("/page/chats", params={"before": f"1~{chats[0]['at']}~c0"})
        later = await ann.get("/page/chats", params={"before": f"0~{chats[1]['at']}~c2"})
        await ann.patch("/page/chats/c1", json={"title": ""})
        bare = await ann.patch("/page/chats/c2", json={"title": "\x00"})
        unnamed = (await ann.get("/page/chats")).json()["chats"]
        refusal = [(await ann.patch("/page/chats/c1", json=body)).status_code for body in bodies]
        missing = await ann.patch("/page/chats/nothing", json={"title": "x"})
        cursors = [
            (await ann.get("/page/chats", params={"before": cursor})).status_code
            for cursor in (
                "0~0001-01-01T00:00:00+23:59~c",
                "1~today~c",
                "2~2026-01-01T00:00:00+00:00~c",
                "1~2026-01-01T00:00:00~c",
                "1~~",
            )
        ]

    assert [(chat["chat"], chat["title"], chat["is_pinned"]) for chat in chats] == [
        ("c0", "about 0", True),
        ("c2", "about 2", False),
        ("c1", "Tea <b>", False),
    ]
    assert [chat["chat"] for chat in behind.json()["chats"]] == ["c2", "c1"]
    assert [chat["chat"] for chat in later.json()["chats"]] == ["c1"]
    assert unnamed[2]["title"] == "about 1"
    assert (bare.status_code, unnamed[1]["title"]) == (200, "about 2")
    assert (refusal, missing.status_code, cursors) == ([400] * 4, 404, [400] * 5)


async def test_an_erased_chat_leaves_nothing_but_the_ledger(site: Site) -> None:
    site.parley.model.play([Answer("Noted.")])
    files = {"files": ("list.txt", b"oolong", "text/plain")}
    async with site.browser("ann") as ann, site.browser("bob") as bob:
        await ann.post("/chat/messages", data={"chat": "c1", "event_id": "e1", "content": "my secret tea"}, files=files)
        await sends(ann, "another chat", chat="c2", event_id="e2")
        await sends(ann, "/help", chat="c1", event_id="e3")
        await ann.patch("/page/chats/c1", json={"title": "Tea"})
        await sends(bob, "hello", chat="c1", event_id="e4")
        deleted = await ann.delete("/page/chats/c1")
        again = await ann.delete("/page/chats/c1")
        rest: Any = await messages_of(ann, "c1")
        other: Any = await messages_of(ann, "c2")

    assert (deleted.status_code, again.status_code) == (200, 404)
    assert (rest["turns"], rest["replies"], len(other["turns"])) == ([], [], 1)
    for table in ("messages", "memories", "inbox", "outbox", "file_records", "web_chats", "web_replies", "turn_events"):
        rows = await site.parley.sql(f"SELECT t::text FROM {table} AS t")  # noqa: S608  # our own names
        assert not any("secret" in row[0] or "list.txt" in row[0] or "Tea" in row[0] for row in rows), table
    files_left = [path for path in (site.parley.app.settings.parley_home / "files").rglob("*") if path.is_file()]
    assert files_left == []
    assert await site.parley.value("SELECT count(*) FROM token_logs WHERE purpose = 'answer'") == 3
    assert await site.parley.value("SELECT count(*) FROM conversations") == 2


async def claim_turns(site: Site, session: Session) -> list[int]:
    """Take turns off the list as a worker does that makes them recallable."""
    turn_ids: list[int] = []
    while not turn_ids:
        await site.parley.sql(LISTED)
        turn_ids = [row.turn_id for row in (await session.execute(remembering.claim_turns, {"limit": 9})).all()]
    return turn_ids


@pytest.mark.parametrize("what", ["chat", "person"])
async def test_what_is_made_recallable_just_now_is_erased(site: Site, what: str) -> None:
    app = site.parley.app

    async def erases(ann: httpx.AsyncClient) -> None:
        if what == "chat":
            assert (await ann.delete("/page/chats/c1")).status_code == 200
            return
        async with app.database.transaction() as session:
            erasure_id = await request_erasure(session, await site.parley.value("SELECT id FROM users"))
        await erase(app.database, app.files.storage, cast(int, erasure_id))

    async with site.browser("ann") as ann, asyncio.timeout(60):
        await sends(ann, "my secret tea")
        async with app.database.transaction() as session:
            turn_ids = await claim_turns(site, session)
            erasing = asyncio.create_task(erases(ann))
            while not await site.parley.value(WAITING):  # noqa: ASYNC110  # the database tells nobody
                await asyncio.sleep(0.02)
            await session.execute(remembering.list_messages, {"turn_ids": turn_ids, "agents": []})
            await session.execute(remembering.end_turns, {"turn_ids": turn_ids})
        await erasing

    async with connected(app.database.address) as owner:
        assert await owner.fetchval("SELECT (SELECT count(*) FROM turns) + (SELECT count(*) FROM memories)") == 0


async def test_a_chat_whose_answer_is_being_written_is_stopped_and_erased(site: Site) -> None:
    _, endless = gated_answer("never")
    site.parley.model.play(endless)
    async with site.browser("ann") as ann:
        asking = asyncio.create_task(sends(ann, "think hard", chat="c1"))
        await site.parley.model.until(1)
        deleted = await ann.delete("/page/chats/c1")
        await asking

    assert deleted.status_code == 200
    assert await site.parley.value("SELECT count(*) FROM turns") == 0
    assert await site.parley.value("SELECT count(*) FROM budget_reservations") == 0


async def test_a_chat_that_can_not_be_erased_keeps_its_files(site: Site) -> None:
    gate, gated = gated_answer("Done.")
    site.parley.model.play(gated)
    files = {"files": ("list.txt", b"oolong", "text/plain")}
    app, place = site.parley.app, place_of("ann", "c1")
    async with site.browser("ann") as ann:
        fields = {"chat": "c1", "event_id": "e1", "content": "think hard"}
        asking = asyncio.create_task(ann.post("/chat/messages", data=fields, files=files))
        await site.parley.model.until(1)
        async with app.database.transaction() as session:
            chat = await find_chat(session, "ann", place)
        outcome = await erase_chat(app, chat, "ann", place=place)
        gate.set()
        await asking
        shown: Any = await messages_of(ann, "c1")
        link = urlsplit(shown["turns"][0]["events"][0]["files"][0]["url"])
        file = await ann.get(f"{link.path}?{link.query}")

    assert (outcome, file.status_code, file.content) == ("busy", 200, b"oolong")


async def test_commands_are_kept_within_limits(site: Site) -> None:
    async with site.browser("ann") as ann:
        await sends(ann, "/help", chat="c1", event_id="e1")
        await site.parley.sql(
            "INSERT INTO web_replies (user_id, platform_channel_id, turn_id, event_id, line, reply) SELECT user_id,"
            " platform_channel_id || n, 0, 'e', line, reply FROM web_replies, generate_series(1, 2010) AS n"
        )
        await sends(ann, "/help " + "x" * 90_000, chat="c2", event_id="e2")

    assert await site.parley.value("SELECT count(*) FROM web_replies") == 2000
    assert await site.parley.value("SELECT max(length(line)) FROM web_replies") == 2000


async def test_the_searches_of_one_person_leave_the_database_to_others(site: Site) -> None:
    async with (
        site.browser("ann") as ann,
        site.browser("bob") as bob,
        connected(site.parley.app.database.address) as other,
    ):
        await sends(ann, "hello")
        lock = other.transaction()
        await lock.start()
        await other.execute("LOCK TABLE messages")
        searches = [asyncio.create_task(ann.get("/page/search", params={"words": "x"})) for _ in range(30)]
        state = await bob.get("/page/state")
        refusal = [await done for done in itertools.islice(asyncio.as_completed(searches), 26)]
        await lock.rollback()
        responses = await asyncio.gather(*searches)

    assert state.status_code == 200
    assert {response.status_code for response in refusal} == {429}
    assert sorted(response.status_code for response in responses) == [200] * 4 + [429] * 26


async def test_messages_about_the_same_are_found_behind_those_with_the_words(site: Site) -> None:
    async with (
        site.browser("ann") as ann,
        site.browser("bob") as bob,
        connected(site.parley.app.database.address) as owner,
        asyncio.timeout(60),
    ):
        await sends(ann, "We went boating on the Otter", chat="c1", event_id="e1")
        await sends(ann, "about tea", chat="c2", event_id="e2")
        await sends(bob, "My boats are mine", chat="c1", event_id="e3")
        while await owner.fetchval(UNREMEMBERED):  # noqa: ASYNC110  # the database tells nobody
            await asyncio.sleep(0.02)
        results = (await ann.get("/page/search", params={"words": "boats"})).json()["matches"]
        exact = (await ann.get("/page/search", params={"words": "boating"})).json()["matches"]
        nobody = (await bob.get("/page/search", params={"words": "tea"})).json()["matches"]
        wordless = [(await ann.get("/page/search", params={"words": w})).json()["matches"] for w in ("%", "\u200b")]

    assert {(match["chat"], match["is_similar"]) for match in results} == {("c1", True)}
    assert "We went boating on the Otter" in {match["snippet"] for match in results}
    assert {(match["chat"], match["is_similar"]) for match in exact} == {("c1", False)}
    assert (nobody, wordless) == ([], [[], []])


@pytest.mark.parametrize(
    ("content", "words", "snippet"),
    [
        ("## Tea\n\n- **Green** tea,\n- `black` [tea](https://tea.example)", "tea", "Tea Green tea, black tea"),
        ("| a | b |\n|---|---|\n| tea | pot |\n\n```py\ntea = 1\n```", "pot", "a b tea pot tea = 1"),
        ("**Tea**pot, [tea](https://a.example), *tea*\n`pot`", "pot", "Teapot, tea, tea pot"),
        ("**Oo**long and [Da](https://tea.example/darj_)rjee*ling*", "oolong DARJEELING", "Oolong and Darjeeling"),
        (f"{'x' * 2000} te**a**pot {'y' * 2000}", "teapot", f"…{'x' * 52} teapot {'y' * 100}…"),
        (r"The name is \_my\_tea.", "_my_tea", "The name is _my_tea."),
        ("See [here](https://tea.example)", "tea.example", "See [here](https://tea.example)"),
        (f"{'**far** ' * 100}\n**tea** {'and ' * 200}", "tea", f"… {'far ' * 13}tea {'and ' * 25}and…"),
        (f"{'x' * 2000} tea {'y' * 2000}", "tea", f"…{'x' * 52} tea {'y' * 103}…"),
    ],
)
async def test_a_match_shows_an_answer_as_people_read_it(site: Site, content: str, words: str, snippet: str) -> None:
    site.parley.model.play([Answer(content)])
    async with site.browser("ann") as ann:
        await sends(ann, "2 * 3 * 4 and __init__")
        matches = (await ann.get("/page/search", params={"words": words})).json()["matches"]
        own = (await ann.get("/page/search", params={"words": "__init__"})).json()["matches"]

    assert [match["snippet"] for match in matches] == [snippet]
    assert [match["snippet"] for match in own] == ["2 * 3 * 4 and __init__"]


def test_the_excerpt_of_an_answer_that_repeats_itself_is_made_at_once() -> None:
    answer, word = f"{'a' * 200_000} {'a*' * 100_000} {'a' * 198}*a*b", f"{'a' * 199}b"
    start = time.process_time()

    assert to_snippet(answer, [word], is_markdown=True) == f"…{'a' * 52} {'a' * 107}…"
    # A tenth of this where nothing else runs; the process answers nobody meanwhile, and may show forty of them.
    assert time.process_time() - start < 1


@pytest.mark.settings(embedding_model="openai/small")
async def test_a_search_waits_for_nobody_elses_embedder_and_pays_none_that_a_turn_may_not(site: Site) -> None:
    model, gate, entered = site.parley.model, asyncio.Event(), asyncio.Queue[None]()

    async def wait(_body: Body) -> None:
        await entered.put(None)
        await gate.wait()

    async with (
        site.browser("ann") as ann,
        site.browser("bob") as bob,
        site.browser("cat") as cat,
        connected(site.parley.app.database.address) as owner,
    ):
        for who in (ann, bob):
            await sends(who, "We went boating on the Otter", chat="c1", event_id="e1")
        while await owner.fetchval(WITHOUT_VECTORS):  # noqa: ASYNC110  # the database tells nobody
            await asyncio.sleep(0.02)
        model.before_embedding = wait
        tasks = [asyncio.create_task(who.get("/page/search", params={"words": "boats"})) for who in (ann, bob)]
        for _ in tasks:
            await entered.get()
        free = await cat.get("/page/search", params={"words": "boats"})
        is_waiting = not any(task.done() for task in tasks)
        gate.set()
        await asyncio.gather(*tasks)
        for refusing in ("UPDATE users SET token_budget_monthly = 1", PAUSED):
            await owner.execute(refusing)
            refused = await ann.get("/page/search", params={"words": "boating"})
            assert {match["is_similar"] for match in refused.json()["matches"]} == {False}

    assert (free.json()["matches"], is_waiting, entered.empty()) == ([], True, True)


async def test_messages_are_found_by_their_words_and_exported(site: Site) -> None:
    async with site.browser("ann") as ann:
        await sends(ann, "Oolong is 100% my favourite_tea\\", chat="c1", event_id="e1")
        await sends(ann, "pots", chat="c2", event_id="e2")
        results = {
            words: [
                (match["chat"], match["is_own"])
                for match in (await ann.get("/page/search", params={"words": words})).json()["matches"]
                if not match["is_similar"]
            ]
            for words in ("OOLONG favour", "100%", "%", "favourite_tea\\", "oolong pots", "", "_o")
        }
        markdown = await ann.get("/page/chats/c1/export", params={"format": "md"})
        exported = await ann.get("/page/chats/c1/export", params={"format": "json"})
        wrong = await ann.get("/page/chats/c1/export", params={"format": "exe"})

    both = [("c1", False), ("c1", True)]
    assert {words: sorted(matches) for words, matches in results.items()} == {
        "OOLONG favour": both,
        "100%": both,
        "%": both,
        "favourite_tea\\": both,
        "oolong pots": [],
        "": [],
        "_o": [],
    }
    assert "Oolong is 100% my favourite_tea" in markdown.text
    assert markdown.headers["content-disposition"].startswith('attachment; filename="chat-c1.md"')
    assert [message["role"] for message in exported.json()] == ["user", "assistant"]
    assert wrong.status_code == 400
