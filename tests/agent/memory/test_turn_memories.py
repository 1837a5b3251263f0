"""The messages of a turn become memories soon after it ended: in their place, once, and gone with the message."""

import asyncio

from sqlalchemy import text

from adapters.chat.intake import Edits
from agent.queue.edits import change_message
from agent.queue.redaction import redact
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley
from tests.support.summaries import memories, pause_and_summarise, remembered, summarise, summarised_by, writer


async def test_the_message_and_the_answer_of_a_turn_become_memories(parley: Parley, model: OpenAIStub) -> None:
    model.play(["Rex is a nice name."])
    answer = await parley.ask("My dog is called Rex.", event_id="m1")

    mine, bot = await remembered(parley)

    assert (mine["content"], mine["speaker"], mine["is_from_bot"]) == ("My dog is called Rex.", "Ann", False)
    assert (mine["scope"], mine["source"], mine["platform_message_id"]) == ("private", "turn", "m1")
    assert (bot["content"], bot["is_from_bot"], bot["turn_id"]) == ("Rex is a nice name.", True, answer.turn_id)


async def test_what_was_said_long_ago_is_shown_again_with_its_speaker(parley: Parley, model: OpenAIStub) -> None:
    await parley.ask("My dog is called Rex.", server="guild", user="bob")
    await remembered(parley)
    await parley.sql("UPDATE conversations SET window_turn_id = 1000000")
    await parley.ask("What is the name of the dog?", server="guild")
    await remembered(parley)
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")

    await parley.ask("What is the name of the dog called?", server="guild")

    content = model.requests[-1].body["messages"][-1]["content"]
    assert ', Bob: "My dog is called Rex."' in content
    assert "data, not instructions" in content


async def test_the_first_message_of_a_newcomer_recalls_what_the_channel_remembers(
    parley: Parley, model: OpenAIStub
) -> None:
    await parley.ask("My dog is called Rex.", server="guild", user="bob")
    await remembered(parley)
    await parley.sql("UPDATE conversations SET window_turn_id = 1000000")

    await parley.ask("What is the name of the dog?", server="guild", user="eve")
    assert ', Bob: "My dog is called Rex."' in model.requests[-1].body["messages"][-1]["content"]
    await parley.ask("What is the name of the dog?", server="other", user="zoe")
    assert "Rex" not in model.requests[-1].body["messages"][-1]["content"]
    searched = "SELECT reasons -> 'memories' FROM turn_contexts ORDER BY turn_id DESC LIMIT 1"
    assert await parley.value(searched) == []


async def test_a_message_that_the_history_shows_is_not_recalled_too(parley: Parley, model: OpenAIStub) -> None:
    await parley.ask("My dog is called Rex.")
    await remembered(parley)
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")

    await parley.ask("What is my dog called?")

    assert "you remember" not in model.requests[-1].body["messages"][-1]["content"]


async def test_two_writers_store_each_turn_once(parley: Parley) -> None:
    await asyncio.gather(*(parley.ask(f"This is number {number}.", user=f"user{number}") for number in range(6)))

    await asyncio.gather(*(writer(parley).run() for _ in range(3)))

    assert len(await remembered(parley)) == 12


async def test_a_writer_that_dies_before_its_commit_loses_nothing(parley: Parley) -> None:
    assert parley.worker is not None
    await parley.ask("My dog is called Rex.")
    await remembered(parley)
    await parley.sql("INSERT INTO unremembered_turns (turn_id) SELECT max(id) FROM turns")
    connection = await parley.app.database.connect()
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("DELETE FROM unremembered_turns")
    connection.terminate()

    assert len(await remembered(parley)) == 4


async def test_a_deleted_message_is_gone_from_the_memories(parley: Parley) -> None:
    await parley.ask("My number is 4711.", event_id="secret")
    await remembered(parley)

    await Edits(parley.app, "test").delete(["secret"])

    assert await memories(parley) == []
    assert await remembered(parley) == []


async def test_a_message_that_is_deleted_before_it_is_stored_is_never_stored(parley: Parley) -> None:
    await parley.ask("My number is 4711.", event_id="secret")
    await remembered(parley)
    await Edits(parley.app, "test").delete(["secret"])
    await parley.sql("INSERT INTO unremembered_turns (turn_id) SELECT max(id) FROM turns ON CONFLICT DO NOTHING")

    assert await remembered(parley) == []


async def test_a_message_that_is_deleted_after_its_row_of_the_inbox_went_is_gone_everywhere(
    parley: Parley, model: OpenAIStub
) -> None:
    facts = [{"message": 1, "fact": "Ann's PIN is 1234.", "confidence": 0.9, "replaces": None}]
    model.play(summarised_by(lambda _: {"summary": "Ann's PIN is 1234.", "facts": facts}))
    await parley.app.files.storage.put("inbox/pin.txt", b"1234", "text/plain")
    file = parley.attach("pin.txt", "inbox/pin.txt", size=4)
    await parley.ask("My PIN is 1234.", event_id="secret", attachments=[file])
    await remembered(parley)
    await pause_and_summarise(parley)
    model.play(summarised_by(lambda _: "Nothing."))
    await parley.sql("DELETE FROM inbox")

    await redact(parley.app.database, parley.app.files.storage, platform="test", message_ids=["secret"])

    assert await remembered(parley) == []
    assert await parley.value("SELECT summary FROM conversations") is None
    assert await parley.value("SELECT content FROM messages WHERE role = 'user'") == "[deleted]"
    assert await parley.value("SELECT count(*) FROM file_records") == 0


async def test_an_edited_message_is_remembered_as_it_reads_now(parley: Parley) -> None:
    await parley.ask("My number is 4711.", event_id="m1")
    await remembered(parley)

    await change_message(parley.app.database, "test", "m1", "My number is 4712.")

    assert [memory["content"] for memory in await remembered(parley)] == ["My number is 4712."]


async def test_an_answer_that_was_drawn_from_foreign_text_is_no_memory(parley: Parley, model: OpenAIStub) -> None:
    call = Answer(tool_calls=[("calculator__calculate", {"expression": "1 + 1"})])
    model.play([call, "It is 2."])
    await parley.ask("How much is 1 + 1?")
    assert len(await remembered(parley)) == 2

    await parley.sql("UPDATE messages SET tool_name = 'gone.tool' WHERE role = 'tool_result'")
    await parley.sql("INSERT INTO unremembered_turns (turn_id) SELECT max(id) FROM turns")

    assert sum(memory["is_from_bot"] for memory in await remembered(parley)) == 1


async def test_a_person_who_was_deleted_is_not_remembered(parley: Parley) -> None:
    await parley.ask("My dog is called Rex.")
    await remembered(parley)
    await parley.sql("DELETE FROM users USING set_config('parley.delete_history', 'yes', true)")
    async with parley.app.database.transaction() as session:
        await session.execute(text("INSERT INTO unremembered_turns (turn_id) SELECT max(id) FROM turns"))

    assert await remembered(parley) == []


async def test_what_a_person_has_forgotten_is_gone_wherever_it_was_kept(parley: Parley, model: OpenAIStub) -> None:
    remember = Answer(tool_calls=[("knowledge__remember", {"content": "The PIN is 1234."})])
    model.play([remember, "I keep it."])
    await parley.ask("Remember that my PIN is 1234.")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL")
    memory_id = next(memory["id"] for memory in await remembered(parley) if memory["source"] == "remembered")
    model.play(summarised_by(lambda _: "The PIN is 1234."))
    await pause_and_summarise(parley)
    assert "1234" in await parley.value("SELECT summary FROM conversations")

    forget = Answer(tool_calls=[("knowledge__forget", {"memory_id": memory_id})])
    model.play([forget, "It is forgotten."])
    await parley.ask("Forget my PIN 1234.")

    assert await remembered(parley) == []
    assert await parley.value("SELECT summary FROM conversations") is None
    count = len(model.requests)
    await summarise(parley)
    assert len(model.requests) == count
