"""A changed persona answers recorded turns again; people notice nothing of it."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.db.pooling.room import POOL_SIZE
from shared.errors import Refusal
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body
from tests.support.command_line import types
from tests.support.connections import run_as_owner
from tests.support.eventually import eventually
from tests.support.parley import Parley

SAGE = """
INSERT INTO personas (name, system_prompt, platform, allowed_modules)
VALUES ('Sage', 'You are wise.', 'test', '["calculator", "file_manager"]')
"""
# What a dry run must leave as it is.
COUNTS = """
SELECT (SELECT count(*) FROM turns), (SELECT count(*) FROM messages), (SELECT count(*) FROM outbox),
       (SELECT count(*) FROM inbox), (SELECT count(*) FROM file_records), (SELECT count(*) FROM turn_events)
"""
SPENT = """
SELECT sum(input_tokens + output_tokens), count(*)
FROM token_logs JOIN user_platform_links USING (user_id)
WHERE purpose = 'dry_run' AND platform_user_id = :account
"""
# No worker plays one any more.
REPLIED = "SELECT NOT EXISTS (SELECT FROM dry_runs WHERE worker_id IS NOT NULL AND reply IS NULL)"
MEMORY = """
INSERT INTO memories (user_id, content)
SELECT user_id, 'Bob bakes cakes' FROM user_platform_links WHERE platform_user_id = 'bob'
"""
SUM = ("calculator__calculate", {"expression": "2 + 3"})
DOCUMENT = ("file_manager__create_document", {"title": "a", "content": "b", "format": "txt"})


@dataclass(frozen=True)
class Operator:
    """Types dry runs of Sage, with other instructions."""

    parley: Parley
    home: Path

    async def tries(self, *arguments: str, stdin: str = "") -> str:
        prompt, model = self.home / "pirate.txt", self.parley.model
        prompt.write_text("You are a pirate.")
        settings = {"LLM_MODELS": "openai/stub", "OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "sk-test"}
        command = ("persona", "dry-run", "Sage", "--prompt-file", str(prompt), "--as", "test:ann", *arguments)
        return await types(self.parley.app.database.address, self.home, *command, stdin=stdin, **settings)


@pytest.fixture
def operator(parley: Parley, tmp_path: Path) -> Operator:
    return Operator(parley, tmp_path)


async def recorded_turns(parley: Parley) -> str:
    """Let Bob have two answers of Sage, and make Ann an admin who has none; return the numbers of the turns."""
    await parley.sql(SAGE)
    parley.model.play([Answer(tool_calls=[SUM]), "Five.", "Hello."])
    turns = [(await parley.ask(text, user="bob")).turn_id for text in ("How much is 2 + 3?", "Hello!")]
    await parley.sql("INSERT INTO users (permission_level) VALUES ('admin')")
    link = (
        "INSERT INTO user_platform_links (user_id, platform, platform_user_id) SELECT max(id), 'test', 'ann' FROM users"
    )
    await parley.sql(link)
    return ",".join(map(str, turns))


async def test_a_changed_persona_answers_recorded_turns_again(
    parley: Parley, model: OpenAIStub, operator: Operator
) -> None:
    turns = await recorded_turns(parley)
    before = await parley.sql(COUNTS)
    model.play([Answer(tool_calls=[SUM]), "Five, arr!", Answer("I write it down.", tool_calls=[DOCUMENT])])

    comparisons = json.loads(await operator.tries("--turns", turns, "--yes", "--json"))

    answers = [(comparison["then"]["text"], comparison["now"]["text"]) for comparison in comparisons]
    assert answers == [("Five.", "Five, arr!"), ("Hello.", "I write it down.")]
    assert comparisons[0]["called"] == ['calculator.calculate({"expression": "2 + 3"})']
    assert comparisons[1]["would_call"][0].startswith("file_manager.create_document(")
    bodies = [request.body["messages"] for request in list(model.requests)[-3:]]
    assert {str(body[0]["content"]).partition("\n")[0] for body in bodies} == {"You are a pirate."}
    # The recorded result stands for the tool, and the history is the one that the turn had.
    assert "5" in bodies[1][-1]["content"]
    assert [message.get("content") for message in bodies[2] if message["role"] == "assistant"][-1] == "Five."
    assert await parley.sql(COUNTS) == before
    assert await parley.sql(SPENT, account="ann") == [(sum(comparison["tokens"] for comparison in comparisons), 3)]
    assert await parley.sql(SPENT, account="bob") == [(None, 0)]


async def test_a_dry_run_needs_one_connection_at_a_time(parley: Parley, model: OpenAIStub, operator: Operator) -> None:
    await recorded_turns(parley)
    await run_as_owner(parley.app.database.address, MEMORY)
    await eventually(lambda: parley.value("SELECT NOT EXISTS (SELECT FROM parley_unindexed_memories(1))"))
    model.play(["He bakes them."])
    turn = (await parley.ask("Who bakes cakes?", user="bob")).turn_id
    model.play(["He bakes them, arr!"])

    async with AsyncExitStack() as others:
        for _ in range(POOL_SIZE - 1):
            await others.enter_async_context(parley.app.database.statement())
        (comparison,) = json.loads(await operator.tries("--turns", str(turn), "--yes", "--json"))

    assert comparison["now"]["text"] == "He bakes them, arr!"
    assert "Bob bakes cakes" in json.dumps(list(model.requests)[-1].body["messages"])


async def test_a_dry_run_is_estimated_and_asks_before_it_costs_anything(
    parley: Parley, model: OpenAIStub, operator: Operator
) -> None:
    await recorded_turns(parley)
    count = model.count

    with pytest.raises(AssertionError, match="Aborted"):
        await operator.tries(stdin="n\n")
    assert model.count == count
    with pytest.raises(Refusal, match="These turns can't be answered again: 999"):
        await operator.tries("--turns", "999", "--yes")
    model.play(["Ahoy."])
    output = await operator.tries("--last", "1", stdin="y\n")

    assert "1 turns, about" in output
    assert "then (openai/stub)" in output
    assert "Ahoy." in output
    assert "on your ledger as dry_run" in output
    await parley.sql("UPDATE users SET token_budget_monthly = 100 WHERE permission_level = 'admin'")
    with pytest.raises(AssertionError, match="this month's budget"):
        await operator.tries("--yes")
    await parley.sql("UPDATE users SET permission_level = 'user', token_budget_monthly = 100")
    with pytest.raises(Refusal, match="is paid by an admin"):
        await operator.tries("--yes")
    assert model.count == count + 1


async def test_instructions_in_another_encoding_are_tried_as_they_would_be_stored(
    parley: Parley, model: OpenAIStub, operator: Operator, tmp_path: Path
) -> None:
    await recorded_turns(parley)
    prompt = tmp_path / "old.txt"
    prompt.write_bytes(b"Serve caf\xe9.")
    model.play(["Ahoy."])

    await operator.tries("--last", "1", "--yes", "--prompt-file", str(prompt))

    assert list(model.requests)[-1].body["messages"][0]["content"].startswith("Serve caf\ufffd.")


def play_without_end(model: OpenAIStub) -> asyncio.Event:
    """Let the model answer nothing; return what is set as soon as it is called."""
    is_called = asyncio.Event()

    async def hangs(_body: Body, _number: int) -> Answer:
        is_called.set()
        await asyncio.Event().wait()
        return Answer()

    model.play(hangs)
    return is_called


@pytest.mark.parametrize("erases", [False, True])
async def test_a_command_waits_for_no_dry_run_that_nobody_plays_any_more(
    parley: Parley, model: OpenAIStub, operator: Operator, erases: bool
) -> None:
    turns = await recorded_turns(parley)
    is_called = play_without_end(model)
    command = asyncio.create_task(operator.tries("--turns", turns, "--yes"))
    await is_called.wait()

    if erases:
        erasure = await parley.value("INSERT INTO erasures (user_id) SELECT min(id) FROM users RETURNING id")
        assert await parley.value("SELECT parley_erase_person(:id)", id=erasure)
    else:
        assert parley.worker is not None
        parley.worker.cancel()

    # A worker that ends tells it, unless the command sees first that it is gone.
    with pytest.raises(Refusal, match="person in it was erased" if erases else "come to the end of it|with its worker"):
        await command
    await eventually(lambda: parley.value("SELECT NOT EXISTS (SELECT FROM dry_runs)"))


@pytest.mark.parametrize("end", ["DELETE FROM dry_runs", "UPDATE dry_runs SET read_at = now() - interval '11 seconds'"])
async def test_a_dry_run_ends_with_the_command_that_waits_for_it(parley: Parley, model: OpenAIStub, end: str) -> None:
    numbers = [int(number) for number in (await recorded_turns(parley)).split(",")]
    is_called = play_without_end(model)
    trial = {"persona": "Sage", "prompt": None, "model": None, "version": None, "turns": numbers, "last": 5}
    payer_id = await parley.value("SELECT max(id) FROM users")
    request = json.dumps({"trial": trial, "payer_id": payer_id, "is_estimate": False})
    ask = "WITH r AS (INSERT INTO dry_runs (request) VALUES (:request)) SELECT pg_notify('parley_changes', 'dry_runs')"
    await parley.sql(ask, request=request)
    await is_called.wait()
    calls = model.count

    # Interrupted, it takes its row away; killed, it looks no more. Others were killed before a worker began.
    await parley.sql(end)
    unread = "INSERT INTO dry_runs (request, read_at) VALUES (:request, now() - interval '11 seconds')"
    await parley.sql(unread, request=request)

    async def is_over() -> bool:
        return model.abandoned == 1 and bool(await parley.value(REPLIED))

    await eventually(is_over)
    model.play(["Ahoy."])
    assert (await parley.ask("Hello?", user="bob")).content == "Ahoy."
    assert model.count == calls + 1
    assert await parley.value("SELECT count(*) FROM dry_runs WHERE worker_id IS NULL") == 1


async def test_a_worker_plays_what_it_took_without_hearing_of_it(parley: Parley, model: OpenAIStub) -> None:
    numbers = [int(number) for number in (await recorded_turns(parley)).split(",")]
    model.play(["Ahoy.", "Ahoy."])
    trial = {"persona": "Sage", "prompt": None, "model": None, "version": None, "turns": numbers, "last": 5}
    payer_id = await parley.value("SELECT max(id) FROM users")
    request = json.dumps({"trial": trial, "payer_id": payer_id, "is_estimate": True})

    # As when the connection is lost with the answer, or with the reply.
    await parley.sql("INSERT INTO dry_runs (request, worker_id) SELECT :request, id FROM workers", request=request)

    await eventually(lambda: parley.value("SELECT reply IS NOT NULL FROM dry_runs"))
    assert "turns" in json.loads(await parley.value("SELECT reply FROM dry_runs"))
