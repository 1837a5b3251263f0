"""Messages that are edited or deleted after they were sent."""

from shared.db.database import Address
from shared.errors import ConfirmationClosed
from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Json
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.office import Office, calls

# By these, an erasure finds what was quoted of a person.
AUTHORS = (
    "SELECT DISTINCT quoted ->> 'author_id' FROM inbox, jsonb_array_elements(platform_context -> 'earlier') AS quoted"
)


async def test_what_was_quoted_beside_another_persons_question_is_redacted_there(pond: Scene) -> None:
    pond.model.play([Answer("Herons."), Answer("No idea.")])
    secret = await pond.bob.says("my password is frog", pond.general)
    await pond.bob.says("and it rains", pond.general)
    await pond.ann.asks("what eats toads?", pond.general)
    await pond.ann.hears(pond.general)
    assert "Bob: my password is frog" in pond.prompt()
    assert await pond.sql(AUTHORS) == [(pond.bob.id,)]

    await pond.bob.deletes(secret)
    await pond.until_value(
        0, "SELECT count(*) FROM inbox WHERE CAST(platform_context AS text) LIKE '%frog%' OR content LIKE '%frog%'"
    )
    await pond.ann.asks("what is the password?", pond.general)
    await pond.ann.hears(pond.general, 2)

    result = "".join(message["content"] for message in pond.model.requests[-1].body["messages"])
    assert "frog" not in result
    assert ("Bob: [deleted]" in result, "Bob: and it rains" in result, "what eats toads?" in result) == (
        True,
        True,
        True,
    )
    rows = await pond.sql("SELECT content FROM messages UNION ALL SELECT CAST(payload AS text) FROM turn_events")
    assert [row.content for row in rows if "frog" in row.content] == []


async def test_what_is_deleted_before_the_question_beside_it_is_worked_on_is_never_read(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Herons.")])
    async with scene.opened(address, model, works=False):
        secret = await scene.bob.says("my password is frog", scene.general)
        others = [await scene.bob.says(f"croak {number}", scene.general) for number in range(3)]
        await scene.ann.asks("what eats toads?", scene.general)
        await scene.until_value(1, "SELECT count(*) FROM inbox")
        assert await scene.value("SELECT CAST(platform_context AS text) LIKE '%frog%' FROM inbox")
        await scene.discord.forget_messages(scene.general, [secret, *others[:2]])
        await scene.until_value(False, "SELECT CAST(platform_context AS text) LIKE '%frog%' FROM inbox")
    await scene.discord.gateway.until_gone()

    async with scene.opened(address, model):
        await scene.ann.hears(scene.general)
    assert scene.prompt().count("Bob: [deleted]") == 3
    assert "Bob: croak 2" in scene.prompt()


async def test_files_of_a_deleted_message_and_what_tools_were_told_word_for_word_go_with_it(pond: Scene) -> None:
    message = 'the "combination" is 4-8-15'
    pond.model.play([Answer(tool_calls=[("knowledge__recall", {"query": message})]), Answer("I see."), Answer("Hm.")])
    dm = pond.ann.dm()
    secret = await pond.ann.says(message, dm, files=[("safe.txt", b"left, right, left", "text/plain")])
    await pond.ann.hears(dm)
    assert await pond.sql("SELECT filename, status FROM file_records") == [("safe.txt", "stored")]

    await pond.ann.deletes(secret)
    await pond.until_value(0, "SELECT count(*) FROM file_records")
    await pond.ann.says("what was it?", dm)
    await pond.ann.hears(dm, 2)

    assert "4-8-15" not in str(pond.model.requests[-1].body["messages"])
    assert "safe.txt" not in str(pond.model.requests[-1].body["messages"])
    rows = await pond.sql("SELECT content FROM messages UNION ALL SELECT CAST(payload AS text) FROM turn_events")
    assert [row.content for row in rows if "4-8-15" in row.content] == []


SAFE = 'the "combination" is 4-8-15'


async def ask_to_mail(pond: Scene, office: Office) -> tuple[Json, Json]:
    """Let Ann ask for a mail with her own words; return her message and the question about it."""
    pond.parley.app.tools.mcp.offer(office.tools())
    await pond.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'discord')")
    pond.model.play([calls(("office__send", {"to": "bob", "body": SAFE})), Answer("Sent.")])
    message = await pond.ann.says(SAFE, pond.ann.dm())
    await pond.ann.hears(pond.ann.dm())
    return message, pond.ann.reads(pond.ann.dm())[0]


async def list_copies(pond: Scene) -> list[str]:
    """Return what still holds Ann's words, but for the answers that she has read."""
    rows = await pond.sql(
        "SELECT CAST(confirmations AS text) AS row FROM confirmations UNION ALL SELECT CAST(turn_events AS text)"
        " FROM turn_events WHERE name <> 'message' UNION ALL SELECT CAST(messages AS text) FROM messages"
        " WHERE role <> 'assistant'"
    )
    return [row.row for row in rows if "4-8-15" in row.row]


async def test_a_yes_to_what_a_deleted_message_asked_for_comes_too_late(pond: Scene) -> None:
    office = Office()
    message, question = await ask_to_mail(pond, office)

    await pond.ann.deletes(message)
    await pond.until_value("[deleted]", "SELECT content FROM inbox")
    await (await pond.ann.clicks(question, "Yes")).acked()

    assert (await pond.ann.hears(pond.ann.dm(), 2))[1] == str(ConfirmationClosed())
    assert office.sent == []
    assert await list_copies(pond) == []


async def test_what_was_confirmed_goes_with_the_message_that_asked_for_it(pond: Scene) -> None:
    office = Office()
    message, question = await ask_to_mail(pond, office)
    await (await pond.ann.clicks(question, "Yes")).acked()
    await pond.ann.hears(pond.ann.dm(), 2)

    await pond.ann.deletes(message)
    await pond.until_value("[deleted]", "SELECT content FROM inbox ORDER BY id LIMIT 1")

    assert office.sent == [("bob", SAFE)]
    assert await list_copies(pond) == []


async def test_of_two_messages_that_one_answer_covers_the_other_stays(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Both."), Answer("One.")])
    dm = scene.ann.dm()
    async with scene.opened(address, model, works=False):
        secret = await scene.ann.says("first", dm, files=[("one.txt", b"1", "text/plain")])
        await scene.ann.says("second", dm, files=[("two.txt", b"2", "text/plain")])
        await scene.until_value(2, "SELECT count(*) FROM inbox")
    await scene.discord.gateway.until_gone()
    async with scene.opened(address, model):
        await scene.ann.hears(dm)
        await scene.ann.deletes(secret)
        await scene.until_value(1, "SELECT count(*) FROM file_records")
        await scene.ann.says("what did I say?", dm)
        await scene.ann.hears(dm, 2)
        assert await scene.sql("SELECT filename FROM file_records") == [("two.txt",)]

    result = str(scene.model.requests[-1].body["messages"])
    assert ("second" in result, "two.txt" in result) == (True, True)
    assert ("first" in result, "one.txt" in result) == (False, False)


async def test_an_edit_that_mentions_the_agent_is_answered_once_like_a_new_message(pond: Scene) -> None:
    pond.model.play([Answer("Green."), Answer("Brown."), Answer("Done.")])
    me = pond.discord.world.bot
    quiet = await pond.ann.says("just talk", pond.general)
    message = await pond.ann.says("what colour are frogs?", pond.general)
    await pond.ann.edits(quiet, "just talk, corrected")

    await pond.ann.edits(message, f"<@{me['id']}> what colour are frogs?")
    assert await pond.ann.hears(pond.general) == ["Green."]
    assert pond.ann.reads(pond.general)[0]["message_reference"]["message_id"] == message["id"]
    # Discord tells of a pin, or of a preview that was loaded, in the same way.
    await pond.discord.tell_message("MESSAGE_UPDATE", message)
    await pond.ann.edits(message, f"<@{me['id']}> what colour are toads?")
    await pond.discord.until(lambda: "edited" in str(pond.ann.reads(pond.general)[0]["components"]))
    await pond.ann.asks("anything else?", pond.general)

    assert await pond.ann.hears(pond.general, 2) == ["Green.", "Brown."]
    contents = [row.content for row in await pond.sql("SELECT content FROM inbox ORDER BY id")]
    assert contents == ["what colour are toads?", "anything else?"]
    assert "just talk, corrected" in str(pond.model.requests[0].body["messages"])
