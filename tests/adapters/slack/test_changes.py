"""Messages that are changed or deleted after they were sent."""

import asyncio

from shared.db.database import Address
from tests.adapters.slack.conftest import Scene, opened
from tests.standins.openai_api import Answer, OpenAIStub


async def test_an_edit_before_the_turn_replaces_the_text(scene: Scene, address: Address, model: OpenAIStub) -> None:
    model.play([Answer("Toads.")])
    async with opened(scene, address, model, works=False):
        asked = await scene.ann.direct("tell me of forgs")
        await scene.until_value(1, "SELECT count(*) FROM inbox")
        await scene.ann.edits(scene.ann.dm, asked, "tell me of toads")
        await scene.until_value("tell me of toads", "SELECT content FROM inbox")

        secret = await scene.bob.direct("my password is frog")
        await scene.until_value(2, "SELECT count(*) FROM inbox")
        await scene.bob.deletes(scene.bob.dm, secret)
        await scene.until_value("cancelled", "SELECT status FROM inbox ORDER BY id DESC LIMIT 1")

    async with opened(scene, address, model, listens=False):
        assert await scene.ann.hears() == ["Toads."]
        assert "tell me of toads" in scene.prompt()
        assert await scene.sql("SELECT status, content FROM inbox ORDER BY id") == [
            ("answered", "tell me of toads"),
            ("cancelled", "[deleted]"),
        ]


async def test_what_was_answered_and_is_deleted_is_redacted_everywhere(office: Scene) -> None:
    office.model.play([Answer("I see."), Answer("What?")])
    secret = await office.ann.mentions(office.general, "my password is frog")
    await office.ann.hears(office.general)

    # Its thread goes on, and so Slack leaves a tombstone.
    await office.ann.deletes(office.general, secret)
    await office.until_value("[deleted]", "SELECT content FROM inbox")
    await office.ann.posts(office.general, "what did I say?", thread_ts=secret["ts"])
    await office.ann.hears(office.general, 2)

    assert "frog" not in str(office.model.requests[-1].body["messages"]).replace("Frogs and toads", "")
    kept = await office.sql(
        "SELECT content FROM inbox UNION ALL SELECT content FROM messages"
        " UNION ALL SELECT CAST(payload AS text) FROM turn_events"
    )
    assert [row.content for row in kept if "frog" in row.content] == []


async def test_an_edit_that_calls_only_now_is_answered_and_other_edits_are_not(office: Scene) -> None:
    office.model.play([Answer("Here I am."), Answer("Never.")])
    asked = await office.ann.posts(office.general, "are you there?")
    await office.ann.edits(office.general, asked, "are you here?")

    await office.ann.edits(office.general, asked, f"<@{office.slack.bot_user_id}> are you here?")
    assert await office.ann.hears(office.general, thread_ts=asked["ts"]) == ["Here I am."]
    # What it was told before is known, and no new question.
    await office.ann.edits(office.general, asked, f"<@{office.slack.bot_user_id}> where are you?")
    await office.until_value("where are you?", "SELECT content FROM inbox")

    assert await office.value("SELECT count(*) FROM turns") == 1


async def test_what_is_quoted_from_a_message_goes_when_that_is_deleted(office: Scene) -> None:
    office.model.play([Answer("I see."), Answer("What?")])
    secret = await office.bob.posts(office.general, "my password is frog")
    asked = await office.ann.mentions(office.general, "what did Bob say?")
    await office.ann.hears(office.general)
    assert "bob: my password is frog" in office.prompt()

    await office.bob.deletes(office.general, secret)
    await office.until_value(False, "SELECT CAST(surroundings AS text) LIKE '%password%' FROM inbox")
    await office.ann.posts(office.general, "and now?", thread_ts=asked["ts"])
    await office.ann.hears(office.general, 2)

    assert "password" not in str(office.model.requests[-1].body["messages"])


async def test_a_message_that_is_deleted_while_it_is_stored_is_forgotten(office: Scene) -> None:
    office.slack.fail("users.info", seconds=0.5)
    hold = asyncio.Event()

    async def held(_body: object, _number: int) -> Answer:
        await hold.wait()
        return Answer("Hm.")

    office.model.play(held)
    secret = await office.ann.direct("my password is frog")
    await office.slack.until(lambda: office.slack.journal.envelopes)
    await office.ann.deletes(office.ann.dm, secret)

    await office.until_value("[deleted]", "SELECT content FROM inbox")
    hold.set()
