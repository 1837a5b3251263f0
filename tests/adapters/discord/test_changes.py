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


async def test_what_was_quoted_beside_another_persons_question_is_redacted_there(server: Scene) -> None:
    server.model.play([Answer("Wagons."), Answer("No idea.")])
    secret = await server.bob.says("my password is bike", server.general)
    await server.bob.says("and it rains", server.general)
    await server.ann.asks("what eats boats?", server.general)
    await server.ann.hears(server.general)
    assert "Bob: my password is bike" in server.prompt()
    assert await server.sql(AUTHORS) == [(server.bob.id,)]

    await server.bob.deletes(secret)
    await server.until_value(
        0, "SELECT count(*) FROM inbox WHERE CAST(platform_context AS text) LIKE '%bike%' OR content LIKE '%bike%'"
    )
    await server.ann.asks("what is the password?", server.general)
    await server.ann.hears(server.general, 2)

    result = "".join(message["content"] for message in server.model.requests[-1].body["messages"])
    assert "bike" not in result
    assert ("Bob: [deleted]" in result, "Bob: and it rains" in result, "what eats boats?" in result) == (
        True,
        True,
        True,
    )
    rows = await server.sql("SELECT content FROM messages UNION ALL SELECT CAST(payload AS text) FROM turn_events")
    assert [row.content for row in rows if "bike" in row.content] == []


async def test_what_is_deleted_before_the_question_beside_it_is_worked_on_is_never_read(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Wagons.")])
    async with scene.opened(address, model, works=False):
        secret = await scene.bob.says("my password is bike", scene.general)
        others = [await scene.bob.says(f"entry {number}", scene.general) for number in range(3)]
        await scene.ann.asks("what eats boats?", scene.general)
        await scene.until_value(1, "SELECT count(*) FROM inbox")
        assert await scene.value("SELECT CAST(platform_context AS text) LIKE '%bike%' FROM inbox")
        await scene.discord.forget_messages(scene.general, [secret, *others[:2]])
        await scene.until_value(False, "SELECT CAST(platform_context AS text) LIKE '%bike%' FROM inbox")
    await scene.discord.gateway.until_gone()

    async with scene.opened(address, model):
        await scene.ann.hears(scene.general)
    assert scene.prompt().count("Bob: [deleted]") == 3
    assert "Bob: entry 2" in scene.prompt()


async def test_files_of_a_deleted_message_and_what_tools_were_told_word_for_word_go_with_it(server: Scene) -> None:
    message = 'the "combination" is 4-8-15'
    server.model.play([Answer(tool_calls=[("knowledge__recall", {"query": message})]), Answer("I see."), Answer("Hm.")])
    dm = server.ann.dm()
    secret = await server.ann.says(message, dm, files=[("safe.txt", b"left, right, left", "text/plain")])
    await server.ann.hears(dm)
    assert await server.sql("SELECT filename, status FROM file_records") == [("safe.txt", "stored")]

    await server.ann.deletes(secret)
    await server.until_value(0, "SELECT count(*) FROM file_records")
    await server.ann.says("what was it?", dm)
    await server.ann.hears(dm, 2)

    assert "4-8-15" not in str(server.model.requests[-1].body["messages"])
    assert "safe.txt" not in str(server.model.requests[-1].body["messages"])
    rows = await server.sql("SELECT content FROM messages UNION ALL SELECT CAST(payload AS text) FROM turn_events")
    assert [row.content for row in rows if "4-8-15" in row.content] == []


SAFE = 'the "combination" is 4-8-15'


async def ask_to_mail(server: Scene, office: Office) -> tuple[Json, Json]:
    """Let Ann ask for a mail with her own words; return her message and the question about it."""
    server.parley.app.tools.mcp.offer(office.tools())
    await server.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'discord')")
    server.model.play([calls(("office__send", {"to": "bob", "body": SAFE})), Answer("Sent.")])
    message = await server.ann.says(SAFE, server.ann.dm())
    await server.ann.hears(server.ann.dm())
    return message, server.ann.reads(server.ann.dm())[0]


async def list_copies(server: Scene) -> list[str]:
    """Return what still holds Ann's words, but for the answers that she has read."""
    rows = await server.sql(
        "SELECT CAST(confirmations AS text) AS row FROM confirmations UNION ALL SELECT CAST(turn_events AS text)"
        " FROM turn_events WHERE name <> 'message' UNION ALL SELECT CAST(messages AS text) FROM messages"
        " WHERE role <> 'assistant'"
    )
    return [row.row for row in rows if "4-8-15" in row.row]


async def test_a_yes_to_what_a_deleted_message_asked_for_comes_too_late(server: Scene) -> None:
    office = Office()
    message, question = await ask_to_mail(server, office)

    await server.ann.deletes(message)
    await server.until_value("[deleted]", "SELECT content FROM inbox")
    await (await server.ann.clicks(question, "Yes")).acked()

    assert (await server.ann.hears(server.ann.dm(), 2))[1] == str(ConfirmationClosed())
    assert office.sent == []
    assert await list_copies(server) == []


async def test_what_was_confirmed_goes_with_the_message_that_asked_for_it(server: Scene) -> None:
    office = Office()
    message, question = await ask_to_mail(server, office)
    await (await server.ann.clicks(question, "Yes")).acked()
    await server.ann.hears(server.ann.dm(), 2)

    await server.ann.deletes(message)
    await server.until_value("[deleted]", "SELECT content FROM inbox ORDER BY id LIMIT 1")

    assert office.sent == [("bob", SAFE)]
    assert await list_copies(server) == []


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


async def test_an_edit_that_mentions_the_agent_is_answered_once_like_a_new_message(server: Scene) -> None:
    server.model.play([Answer("Green."), Answer("Brown."), Answer("Done.")])
    me = server.discord.world.bot
    quiet = await server.ann.says("just talk", server.general)
    message = await server.ann.says("what colour are bikes?", server.general)
    await server.ann.edits(quiet, "just talk, corrected")

    await server.ann.edits(message, f"<@{me['id']}> what colour are bikes?")
    assert await server.ann.hears(server.general) == ["Green."]
    assert server.ann.reads(server.general)[0]["message_reference"]["message_id"] == message["id"]
    # Discord tells of a pin, or of a preview that was loaded, in the same way.
    await server.discord.tell_message("MESSAGE_UPDATE", message)
    await server.ann.edits(message, f"<@{me['id']}> what colour are boats?")
    await server.discord.until(lambda: "edited" in str(server.ann.reads(server.general)[0]["components"]))
    await server.ann.asks("anything else?", server.general)

    assert await server.ann.hears(server.general, 2) == ["Green.", "Brown."]
    contents = [row.content for row in await server.sql("SELECT content FROM inbox ORDER BY id")]
    assert contents == ["what colour are boats?", "anything else?"]
    assert "just talk, corrected" in str(server.model.requests[0].body["messages"])
