"""What people do with what is kept about them, by commands: forget, export and erase, each after their own yes."""

import asyncio
import json
import re
from typing import Any

import asyncpg

from agent.commands import CommandReply, answer
from agent.queue.edits import change_message
from shared.db.database import Address
from shared.messages import Place
from shared.messages import Sender as Writer
from shared.receipts import verify_receipt
from shared.settings import Settings
from tests.standins.openai_api import Fault, OpenAIStub
from tests.support.parley import Parley, open_parley
from tests.support.summaries import memories, pause_and_summarise, remembered, summarise, summarised_by

ANN, BOB = Writer("test", "ann", "Ann"), Writer("test", "bob", "Bob")
DIRECT, BOBS = Place("test", None, "dm-ann", is_direct=True), Place("test", None, "dm-bob", is_direct=True)
CHANNEL = Place("test", "guild", "general")


async def command(parley: Parley, text: str, sender: Writer = ANN, place: Place = DIRECT) -> CommandReply:
    reply = await answer(parley.app, sender, place, text)
    assert reply is not None
    return reply


def summary_of(text: str) -> dict[str, Any]:
    sentences = [f"The {match[1]} is called {match[2]}." for match in re.finditer(r"my (\w+) is called (\w+)", text)]
    facts = [{"message": 1, "fact": sentence, "confidence": 0.9, "replaces": None} for sentence in sentences[:1]]
    return {"summary": " ".join(sentences) or "They talked.", "facts": facts}


async def test_what_is_about_something_goes_from_every_leg_once_it_was_confirmed(
    parley: Parley, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    model.play(summarised_by(summary_of))
    await parley.ask("my walrus is called Rex")
    await parley.ask("my turtle is called Tom")
    await parley.ask("my walrus is called Rex", user="bob")
    await remembered(parley)
    await pause_and_summarise(parley)
    assert "Rex" in await parley.value("SELECT summary FROM conversations WHERE platform_channel_id = 'dm-ann'")

    reply = await command(parley, "/memory forget about walruses")
    assert reply.is_private
    assert "my walrus is called Rex" in reply.text
    assert "The walrus is called Rex." in reply.text
    assert "Tom" not in reply.text
    yes, no = reply.choices
    assert "nothing to confirm" in (await command(parley, yes.line, BOB, BOBS)).text
    assert (
        "stay in the history of their chats, and I may still read them there: /reset"
        in (await command(parley, yes.line)).text
    )
    assert "nothing to confirm" in (await command(parley, yes.line)).text

    remainder = [memory for memory in await memories(parley) if "Rex" in memory["content"]]
    assert {memory["user_id"] for memory in remainder} == {await user_id(parley, "bob")}
    assert await owner.fetchval("SELECT count(*) FROM memory_words WHERE term = 'walrus'") == len(remainder)
    assert any("Tom" in memory["content"] for memory in await memories(parley))
    await pause_and_summarise(parley)
    summary = await parley.value("SELECT summary FROM conversations WHERE platform_channel_id = 'dm-ann'")
    assert "Rex" not in summary
    assert "Tom" in summary
    assert "no memory of yours" in (await command(parley, "/memory forget about walruses")).text
    assert (await command(parley, no.line)).text == "There was nothing to confirm."


async def user_id(parley: Parley, name: str) -> int:
    return int(await parley.value("SELECT user_id FROM user_platform_links WHERE platform_user_id = :name", name=name))


async def test_only_a_date_is_no_match(parley: Parley) -> None:
    await command(parley, "/me")
    memory = parley.app.memory.of_user(await user_id(parley, "ann"), DIRECT, None)
    said_at = (await memory.remember("likes tea")).said_at

    assert "no memory of yours" in (await command(parley, f"/memory forget about {said_at:%B %Y}")).text
    assert "no memory of yours" in (await command(parley, "/memory forget about the")).text
    await memory.remember(f"plans a trip in {said_at:%B}")
    reply = await command(parley, f"/memory forget about {said_at:%B}")
    assert "plans a trip" in reply.text
    assert "tea" not in reply.text


async def test_what_is_about_something_in_other_words_is_named_and_forgotten_by_its_ids(
    model: OpenAIStub, settings: Settings, address: Address
) -> None:
    embedding = settings.model_copy(update={"embedding_model": "openai/small"})
    async with open_parley(embedding, address, model) as other:
        await command(other, "/me")
        memory = other.app.memory.of_user(await user_id(other, "ann"), DIRECT, None)
        meat = await memory.remember("Ann dislikes vegetables")
        roof = await memory.remember("The photograph hangs upstairs")

        listing = await command(other, "/memory forget about vegetarian food")
        assert not listing.choices
        first, second = listing.text.splitlines()[2:]
        assert (first.split(":")[0], second.split(":")[0]) == (str(meat.id), str(roof.id))
        assert "Ann dislikes vegetables" in first
        reply = await command(other, f"/memory forget {meat.id}, #{2**63} {meat.id}")
        assert "Ann dislikes vegetables" in reply.text
        assert "photograph" not in reply.text
        await command(other, reply.choices[0].line)

        assert [entry.content for entry in await memory.list_all()] == ["The photograph hangs upstairs"]
        assert "no memories with these ids" in (await command(other, f"/memory forget {meat.id} {meat.id}")).text
        # Who may not pay an embedder is told of the words alone.
        before = len(model.embeddings)
        await other.sql("UPDATE users SET token_budget_monthly = 1, tokens_used_this_month = 1")
        assert len((await command(other, "/memory forget about vegetarian food")).text.splitlines()) == 1
        assert len(model.embeddings) == before
        await other.sql("UPDATE users SET token_budget_monthly = NULL")
        model.embedding_fault = lambda _body: Fault(500)
        assert len((await command(other, "/memory forget about vegetarian food")).text.splitlines()) == 1


async def test_everything_is_forgotten_and_nothing_of_it_is_remembered_later(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(summary_of))
    await parley.ask("my walrus is called Rex")
    await parley.ask("my turtle is called Tom", server="guild")
    await parley.ask("my walrus is called Max", user="bob", server="guild")
    await remembered(parley)
    await pause_and_summarise(parley)
    reply = await command(parley, "/memory forget all")
    assert "forget all of your memories in all places (" in reply.text

    assert (await command(parley, reply.choices[1].line)).text == "Nothing was changed."
    assert "nothing to confirm" in (await command(parley, reply.choices[0].line)).text
    reply = await command(parley, "/memory forget all")
    assert "forgotten all" in (await command(parley, reply.choices[0].line)).text

    await remembered(parley)
    await pause_and_summarise(parley)
    assert {memory["user_id"] for memory in await memories(parley)} == {await user_id(parley, "bob")}
    summaries = " ".join(row[0] or "" for row in await parley.sql("SELECT summary FROM conversations"))
    assert "Rex" not in summaries
    assert "Tom" not in summaries
    assert "Max" in summaries


async def test_what_was_said_during_a_pause_is_not_remembered_after_it(parley: Parley, model: OpenAIStub) -> None:
    model.play(summarised_by(summary_of))
    await parley.ask("my turtle is called Tom")
    await command(parley, "/memory pause")
    await parley.ask("my walrus is called Rex", event_id="m1")
    await command(parley, "/memory resume")
    await parley.ask("my dog is called Max")

    await pause_and_summarise(parley)
    await change_message(parley.app.database, "test", "m1", "my walrus is called Rexona")
    await summarise(parley)
    text = str(await remembered(parley)) + await parley.value("SELECT summary FROM conversations")

    assert ("Tom" in text, "Rex" in text, "Max" in text) == (True, False, True)
    assert await parley.value("SELECT count(*) FROM messages WHERE content LIKE '%Rex%'") == 1


async def test_an_export_is_a_file_for_its_person_alone(parley: Parley) -> None:
    await parley.ask("my walrus is called Rex")

    first = await command(parley, "/export", place=CHANNEL)
    reply = await command(parley, "/export", place=CHANNEL)

    assert reply.is_private
    (file,) = reply.files
    assert await parley.value("SELECT count(*) FROM file_records") == 1, f"{first.files} is replaced"
    _, chunks = await parley.app.files.storage.open(parley.app.database, file.file_id)
    archive = json.loads(b"".join([chunk async for chunk in chunks]))
    assert "my walrus is called Rex" in str(archive["messages"])
    assert archive["profile"]["id"] == await user_id(parley, "ann")


async def test_a_person_is_erased_and_gets_a_receipt_that_can_be_verified(parley: Parley) -> None:
    await parley.ask("my walrus is called Rex")
    await command(parley, "/export")
    number = await user_id(parley, "ann")
    assert (await command(parley, "/erase")).text.startswith("Write /erase me")

    reply = await command(parley, "/erase me")
    assert await parley.value("SELECT count(*) FROM users WHERE id = :id", id=number) == 1
    erased = await command(parley, reply.choices[0].line)

    receipt = verify_receipt(parley.app.secrets, erased.text.split("```")[1])
    assert receipt["user"] == number
    assert receipt["erased"]["files"] == 1
    assert await parley.value("SELECT count(*) FROM users WHERE id = :id", id=number) == 0
    assert await parley.value("SELECT count(*) FROM messages WHERE content LIKE '%walrus%'") == 0


async def test_a_confirmation_ends_after_ten_minutes(parley: Parley) -> None:
    reply = await command(parley, "/erase me")
    await parley.sql("UPDATE confirmations SET created_at = now() - interval '11 minutes', expires_at = now()")

    assert "older than ten minutes" in (await command(parley, reply.choices[0].line)).text
    for wrong in ("", "yes", "0", "9" * 30, "-1"):
        assert (await command(parley, f"/confirm {wrong}")).text
    assert await parley.value("SELECT count(*) FROM users") == 1


async def test_of_commands_given_at_once_the_newest_waits_and_is_done_once(parley: Parley) -> None:
    await command(parley, "/me")

    replies = await asyncio.gather(*(command(parley, "/memory forget all") for _ in range(5)))
    statuses = await parley.value("SELECT array_agg(status ORDER BY id) FROM confirmations")
    assert statuses == ["expired"] * 4 + ["pending"]
    newest = max(reply.confirmation or 0 for reply in replies)
    for reply in replies:
        if reply.confirmation != newest:
            assert "nothing to confirm" in (await command(parley, reply.choices[0].line)).text
    answers = await asyncio.gather(*(command(parley, f"/confirm {newest}") for _ in range(5)))
    assert sum("I have forgotten all" in answer.text for answer in answers) == 1
    assert sum("nothing to confirm" in answer.text for answer in answers) == 4
    # A no, and a question that was replaced, are no yes; the row says what became of each.
    reply = await command(parley, "/erase me")
    assert (await command(parley, reply.choices[1].line)).text == "Nothing was changed."
    assert "nothing to confirm" in (await command(parley, reply.choices[0].line)).text
    rows = await parley.sql("SELECT tool, reason, status, question FROM confirmations ORDER BY id DESC LIMIT 2")
    assert rows == [
        ("/erase me", "command", "denied", "/erase me"),
        ("/memory forget all", "command", "used", "/memory forget all"),
    ]
