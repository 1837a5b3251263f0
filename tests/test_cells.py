"""Two cells behind one door, and a server that moves from one to the other while messages come in."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest

from adapters.cells.moves import StillOpen, move_server
from shared.db.database import Address
from shared.errors import ServerMoved
from shared.messages import Place
from shared.settings import Settings
from tests.adapters.web.conftest import say_it_back
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.cells import SERVER, CellDatabases, TwoCells, door_settings, open_cells
from tests.support.connections import connected
from tests.support.source_tree import ROOT


@pytest.fixture
async def cells(settings: Settings, cell_databases: CellDatabases, model: OpenAIStub) -> AsyncIterator[TwoCells]:
    async with open_cells(door_settings(settings), cell_databases, model) as cells:
        yield cells


async def read_rows(address: Address) -> dict[str, list[dict[str, Any]]]:
    """Return what the server has in a cell, by table, without the numbers of people."""
    async with connected(address) as owner:
        await owner.execute("SET parley.rows = 'all'")
        tables = await owner.fetch(
            "SELECT name FROM parley_server_tables() WHERE condition IS NOT NULL AND NOT is_lost"
        )
        people = {
            row["column"]
            for row in await owner.fetch(
                """SELECT attname::text AS column FROM pg_constraint
            JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1] WHERE confrelid = 'users'::regclass"""
            )
        }
        rows = {}
        for (name,) in tables:
            texts = await owner.fetch("SELECT parley_give_rows($1, 'test', $2)", name, SERVER)
            values = [json.loads(text) for (text,) in texts]
            rows[name] = sorted(({key: row[key] for key in row if key not in people} for row in values), key=str)
        return rows


async def test_every_row_of_a_server_goes_with_it_and_nothing_else_does(cells: TwoCells) -> None:
    await cells.ask("first", "I have a brown bicycle and a dog")
    await cells.ask("elsewhere", platform_server_id="other")
    await cells.ask("alone", platform_server_id=None, platform_channel_id="dm")
    await cells.until_remembered("a")
    async with connected(cells.addresses["a"]) as owner:
        await owner.execute((ROOT / "tests/support/cell_rows.sql").read_text())
    before = await read_rows(cells.addresses["a"])
    # Those of Slack go with its workspaces alone.
    empty = {name for name, rows in before.items() if not rows and not name.startswith("slack_")}
    assert empty <= {"unremembered_turns"}
    # It lived elsewhere: the persona of that name stands for the one that stays.
    await cells.sql("b", "INSERT INTO personas (name, system_prompt) VALUES ('Elsewhere', 'You are b''s.')")

    lines = await cells.move()

    after = await read_rows(cells.addresses["b"])
    moved = {row["id"]: row for row in after["turns"]}
    [elsewhere] = await cells.sql("b", "SELECT id FROM personas WHERE name = 'Elsewhere'")
    for row in before["turns"]:
        if row["persona_id"] is not None:
            assert moved[row["id"]]["persona_id"] == elsewhere["id"]
            row["persona_id"] = elsewhere["id"]
    assert after == before
    assert not any(rows for rows in (await read_rows(cells.addresses["a"])).values())
    assert not [line for line in lines if "left out" in line]
    # Whose they are: the same account's.
    owners = """SELECT DISTINCT platform_user_id FROM user_platform_links AS link JOIN (
        SELECT user_id FROM memory_vectors UNION SELECT user_id FROM scheduled_jobs UNION SELECT user_id FROM turns
        UNION SELECT user_id FROM file_records UNION SELECT asked_by_id FROM budget_grants
    ) AS own USING (user_id)"""
    assert [row["platform_user_id"] for row in await cells.sql("b", owners)] == ["ann"]
    # What is of no server, or of another one, stays.
    assert await cells.count("a", "turns") == 2
    private = "SELECT FROM memories WHERE scope = 'private' AND content = 'Ann is afraid.'"
    assert len(await cells.sql("a", private)) == 1
    assert await cells.sql("b", "SELECT FROM memories WHERE scope = 'private'") == []


async def test_what_was_said_before_a_move_is_known_after_it_whatever_the_direction(cells: TwoCells) -> None:
    # In b, ids have come further than in a.
    await cells.sql("b", "SELECT setval('turns_id_seq', last_value + 1600) FROM turns_id_seq")
    await cells.ask("one", "the first word is ladder")
    await cells.move()
    await cells.ask("two", "the second word is basket")
    await cells.move("b", "a")
    await cells.ask("three", "which words were they?")

    prompt = [message["content"] for message in cells.parleys["a"].model.requests[-1].body["messages"]]
    said = [text for text in prompt if "word" in text]
    assert len(said) >= 3
    order = [
        next(number for number, text in enumerate(prompt) if word in text) for word in ("ladder", "basket", "which")
    ]
    assert order == sorted(order)
    assert [row["state"] for name in ("a", "b") for row in await cells.sql(name, "SELECT state FROM admin.cells")] == [
        "here",
        "moved",
    ]


async def test_a_turn_that_runs_ends_where_it_began_and_a_new_message_waits_for_the_move(cells: TwoCells) -> None:
    slow, may_end = await cells.begin_slow_turn()
    async with cells.moving() as move:
        with pytest.raises(StillOpen, match=r"1 messages, 1 turns, 1 model calls.*Run it again"):
            await move_server(move, lambda _line: None, seconds=0)
    late = asyncio.create_task(cells.ask("late", "late"))
    command = await cells.post("command", "/budget")
    assert (command.status_code, command.json()["error"]["code"]) == (503, "server_moving")
    await cells.until("b", "SELECT count(*) = 1 FROM inbox WHERE status = 'waiting'")
    # The same event again is known where it was stored.
    again = asyncio.create_task(cells.ask("slow", "slow"))
    moving = asyncio.create_task(cells.move())
    may_end.set()
    await moving

    assert await slow == await again == "You said: ann: slow"
    assert await late == "You said: ann: late"
    assert await cells.sql("b", "SELECT status, count(*) FROM inbox GROUP BY 1") == [("answered", 2)]
    assert "tokens" in await cells.ask("command again", "/budget")


async def test_every_table_goes_with_a_server_or_stays(cells: TwoCells) -> None:
    async with connected(cells.addresses["a"]) as owner:
        names = [row["name"] for row in await owner.fetch("SELECT name FROM parley_server_tables()")]
        tables = await owner.fetch(
            """SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"""
        )

    assert sorted(names) == sorted(row["relname"] for row in tables), (
        "name it in parley_server_tables.sql or folder_tables"
    )


async def test_a_server_moves_while_messages_come_in_and_each_is_answered_once(cells: TwoCells) -> None:
    assert await cells.ask("first", "the first") == "You said: ann: the first"
    answers: dict[str, str] = {}

    async def write(person: str) -> None:
        for number in range(12):
            event_id = f"{person}-{number}"
            answers[event_id] = await cells.ask(
                event_id, event_id, platform_user_id=person, platform_channel_id=f"channel-{person}"
            )

    writing = asyncio.gather(*(write(f"p{number}") for number in range(6)))
    await cells.move()
    await writing

    assert answers == {event_id: f"You said: {event_id.partition('-')[0]}: {event_id}" for event_id in answers}
    assert len(answers) == 72
    assert await cells.count("a") == await cells.count("a", "conversations") == await cells.count("a", "turns") == 0
    rows = await cells.parleys["b"].sql("SELECT status, count(*) FROM inbox GROUP BY 1")
    assert rows == [("answered", 73)]
    assert await cells.count("b", "turns") == 73
    assert len(cells.parleys["a"].model.requests) == 73
    # The same event again: the answer that it had, although that was given in the other cell.
    assert await cells.ask("first", "the first") == "You said: ann: the first"
    assert len(cells.parleys["a"].model.requests) == 73


async def test_what_a_cell_says_of_a_server_that_has_left_it_counts_for_nothing(cells: TwoCells) -> None:
    place, left = Place("test", SERVER, "town"), cells.cells.get("a")
    await cells.cells.check(place, left)
    await cells.move()
    with pytest.raises(ServerMoved):
        await cells.cells.check(place, left)


async def send_file(cells: TwoCells, event_id: str, text: str, **fields: Any) -> None:
    file = {"filename": f"{event_id}.txt", "data": b64encode(text.encode()).decode(), "mime_type": "text/plain"}
    await cells.ask(event_id, "keep this", attachments=[file], **fields)


async def test_who_rules_a_server_that_moves_gets_nothing_of_the_others_in_either_cell(cells: TwoCells) -> None:
    """Mallory is an admin in the cell that her server leaves, and knows the ids of other people's things."""
    mallory: dict[str, Any] = {"platform_user_id": "mallory"}
    other: dict[str, Any] = {"platform_user_id": "vic", "platform_server_id": "other"}
    await send_file(cells, "diary", "I am in love.", **other)
    await send_file(cells, "menu", "Soup.", **mallory)
    await cells.ask("private", "my pin is 4711", **{**mallory, "platform_server_id": None, "platform_channel_id": "dm"})
    await cells.ask("there", "hello", **{**other, "platform_user_id": "eve"})
    await cells.sql(
        "a",
        """UPDATE users SET permission_level = 'admin' WHERE id = (
            SELECT user_id FROM user_platform_links WHERE platform_user_id = 'mallory')""",
    )
    ids = {row["filename"]: row["id"] for row in await cells.sql("a", "SELECT filename, id FROM file_records")}
    [conversation] = await cells.sql("a", "SELECT id FROM conversations WHERE platform_server_id = 'other'")
    await cells.move()

    people = "SELECT permission_level, token_budget_monthly, tokens_used_this_month FROM users"
    assert [tuple(row) for row in await cells.sql("b", people)] == [("guest", 1_000_000, 0)]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("file_manager__list_files", {}),
        ("file_manager__read_document", {"file_id": ids["diary.txt"]}),
        ("file_manager__delete_file", {"file_id": ids["diary.txt"]}),
        ("file_manager__read_document", {"file_id": ids["menu.txt"]}),
    ]
    cells.parleys["a"].model.play([Answer(tool_calls=calls), Answer("Here.")])
    answer = (await cells.post("steal", "show all", **mallory)).json()
    results = json.dumps([call["result"] for call in answer["tool_calls_made"]])
    assert "love" not in results
    assert "diary.txt" not in results
    assert "Soup." in results
    assert "4711" not in str(cells.parleys["a"].model.requests[-1].body)
    cells.parleys["a"].model.play(say_it_back)
    # Somebody's event id, named from the other cell: it is another message, with an answer of its own.
    assert await cells.ask("there", "mine", **mallory) == "You said: mallory: mine"

    sign = cells.parleys["a"].app.files.storage.sign
    downloads = [await cells.client.get(sign(ids[name]).partition("/files/")[2].join(["/files/", ""])) for name in ids]
    assert [response.text for response in downloads] == ["I am in love.", "Soup."]
    assert (await cells.client.get(f"/v1/conversations/{conversation['id']}/events")).status_code == 200
    moved = answer["conversation_id"]
    assert (await cells.client.get(f"/v1/conversations/{moved}/events")).json()["events"]
    assert (await cells.client.get("/v1/conversations/7/events")).status_code == 404


async def test_a_cell_that_is_away_keeps_nobody_else_from_being_served(cells: TwoCells) -> None:
    await cells.move()
    away = cells.cells.apps.pop("b")

    refused = await cells.post("there", "hello")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "cell_away")
    assert await cells.ask("here", "hello", platform_server_id="other") == "You said: ann: hello"
    ready = await cells.client.get("/readyz")
    assert (ready.status_code, ready.json()["cells"]["b"]["message"]) == (200, "The database can't be reached.")

    await cells.cells.add("b", away)
    assert await cells.ask("there", "hello") == "You said: ann: hello"
