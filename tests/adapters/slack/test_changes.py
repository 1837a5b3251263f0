"""Messages that are changed or deleted after they were sent."""

import asyncio

from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer


async def test_what_is_quoted_from_a_message_goes_when_that_is_deleted(office: Scene) -> None:
    office.model.play([Answer("I see."), Answer("What?")])
    secret = await office.bob.posts(office.general, "my password is bike")
    question = await office.ann.mentions(office.general, "what did Bob say?")
    await office.ann.hears(office.general)
    assert "bob: my password is bike" in office.prompt()

    await office.bob.deletes(office.general, secret)
    await office.until_value(False, "SELECT CAST(platform_context AS text) LIKE '%password%' FROM inbox")
    await office.ann.posts(office.general, "and now?", thread_ts=question["ts"])
    await office.ann.hears(office.general, 2)

    assert "password" not in str(office.model.requests[-1].body["messages"])


async def test_a_message_that_is_deleted_while_it_is_stored_is_forgotten(office: Scene) -> None:
    office.slack.fail("users.info", seconds=0.5)
    hold = asyncio.Event()

    async def wait_forever(_body: object, _number: int) -> Answer:
        await hold.wait()
        return Answer("Hm.")

    office.model.play(wait_forever)
    secret = await office.ann.direct("my password is bike")
    await office.slack.until(lambda: office.slack.journal.envelopes)
    await office.ann.deletes(office.ann.dm, secret)

    await office.until_value("[deleted]", "SELECT content FROM inbox")
    hold.set()


async def test_an_edit_that_is_told_after_the_deletion_changes_nothing(office: Scene) -> None:
    office.model.play([Answer("I see.")])
    message = await office.ann.mentions(office.general, "my password")
    await office.ann.hears(office.general)
    await office.ann.edits(office.general, message, message["text"] + " is bike")
    await office.until_value("my password is bike", "SELECT content FROM inbox")
    edit = next(one for one in office.slack.journal.envelopes if "is bike" in str(one.payload))
    await office.ann.deletes(office.general, message)
    await office.until_value("[deleted]", "SELECT content FROM inbox")

    # Slack has not seen its acknowledgement.
    assert (await office.slack.delivery.give("events_api", edit.payload)).acked_at
    assert await office.sql("SELECT content FROM inbox") == [("[deleted]",)]
