"""What people can rely on, on every platform, when they edit or delete what they have asked."""

import asyncio

from shared.db.database import Address
from tests.adapters.contract.driver import AGAIN, ANN, PlatformDriver
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import gated_answer

INBOX = "SELECT content FROM inbox ORDER BY id"
KEPT = (
    "SELECT content FROM inbox UNION ALL SELECT content FROM messages"
    " UNION ALL SELECT CAST(payload AS text) FROM turn_events"
)
ANSWER_EDITED = "Answer the edited message"


async def test_an_edit_before_the_answer_replaces_the_question(
    driver: PlatformDriver, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Boats.")])
    place = driver.direct(ANN)
    async with driver.open(address, model, works=False):
        question = await driver.say(ANN, "tell me of forgs", place)
        await driver.scene.until_value(1, "SELECT count(*) FROM inbox")
        await driver.edit(question, "tell me of boats")
        await driver.scene.until_value("tell me of boats", INBOX)

    async with driver.open(address, model):
        assert await driver.hear(place) == ["Boats."]
        await driver.until_delivered()

    assert "tell me of boats" in driver.scene.prompt()
    assert ANSWER_EDITED not in driver.posts(place)[0].buttons


async def test_an_edit_while_the_answer_is_made_is_offered_with_it(talk: PlatformDriver) -> None:
    hold, script = gated_answer("Of forgs.")
    talk.scene.model.play(script)
    place = talk.direct(ANN)

    question = await talk.say(ANN, "tell me of forgs", place)
    await talk.scene.model.until(1)
    await talk.edit(question, "tell me of bikes")
    await talk.scene.until_value("tell me of bikes", INBOX)
    hold.set()

    await talk.hear(place)
    await talk.wait(lambda: talk.posts(place)[0].buttons[:1] == (ANSWER_EDITED,))


async def test_an_edit_after_the_answer_offers_another_one(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Of forgs."), Answer("Of bikes.")])
    question = await talk.say(ANN, "tell me of forgs", talk.channel)
    await talk.hear(talk.channel)
    await talk.until_delivered()

    await talk.edit(question, "tell me of bikes")
    await talk.wait(lambda: ANSWER_EDITED in talk.posts(talk.channel)[0].buttons)
    await talk.press(ANN, talk.posts(talk.channel)[0], ANSWER_EDITED)

    assert await talk.hear(talk.channel, 2) == ["Of forgs.", "Of bikes."]
    assert "tell me of bikes" in talk.scene.prompt()
    assert talk.refusals() == []


async def test_an_edit_that_calls_the_agent_is_answered_like_a_new_message(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Green."), Answer("Never.")])
    question = await talk.say(ANN, "what colour are bikes?", talk.channel, calls=False)
    await talk.edit(question, "what colour are the bikes?", calls=False)

    # A path is no command.
    await talk.edit(question, "/etc/bikes: which colour is in there?")
    assert await talk.hear(talk.channel) == ["Green."]
    await talk.edit(question, "what colour are boats?")
    await talk.scene.until_value("what colour are boats?", INBOX)

    assert talk.posts(talk.channel)[0].question == question.id
    assert await talk.scene.value("SELECT count(*) FROM turns") == 1


async def test_a_message_that_is_deleted_before_its_answer_is_withdrawn_and_forgotten(
    driver: PlatformDriver, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Only this.")])
    place = driver.direct(ANN)
    async with driver.open(address, model, works=False):
        secret = await driver.say(ANN, "my password is bike", place)
        await driver.scene.until_value(1, "SELECT count(*) FROM inbox")
        await driver.delete(secret)
        await driver.scene.until_value("cancelled", "SELECT status FROM inbox")

    async with driver.open(address, model):
        await driver.say(ANN, "hello", place)
        assert await driver.hear(place) == ["Only this."]
        assert await driver.scene.sql("SELECT content, status FROM inbox ORDER BY id") == [
            ("[deleted]", "cancelled"),
            ("hello", "answered"),
        ]
    assert "password" not in str(model.requests[0].body)


async def test_a_message_that_is_deleted_after_its_answer_is_redacted_everywhere(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("I see."), Answer("What?")])
    secret = await talk.say(ANN, "my password is 4711", talk.channel)
    await talk.hear(talk.channel)
    await talk.until_delivered()

    await talk.delete(secret)
    await talk.scene.until_value("[deleted]", INBOX)
    await talk.say(ANN, "what did I say?", talk.conversation(secret))
    await talk.hear(talk.channel, 2)

    assert "4711" not in str(talk.scene.model.requests[-1].body["messages"])
    assert [row.content for row in await talk.scene.sql(KEPT) if "4711" in row.content] == []
    result = await talk.press_for_notice(ANN, talk.posts(talk.channel)[0], AGAIN)
    assert result == "What was asked has been deleted."


async def test_a_question_that_is_deleted_in_mid_answer_is_stopped_and_its_answer_goes(talk: PlatformDriver) -> None:
    never = asyncio.Event()
    talk.scene.model.play([Answer("One bike, two bikes, three bikes.", chunk_chars=4, end=never)])
    question = await talk.say(ANN, "count all bikes", talk.channel)
    await talk.wait(lambda: talk.posts(talk.channel))

    await talk.delete(question)

    await talk.scene.until_value("cancelled", "SELECT status FROM turns")
    await talk.until_delivered()
    assert talk.posts(talk.channel) == []
    assert talk.refusals() == []


async def test_a_live_message_whose_confirmation_is_lost_goes_with_its_question(talk: PlatformDriver) -> None:
    for _ in range(6):
        talk.lose_confirmation()

    await test_a_question_that_is_deleted_in_mid_answer_is_stopped_and_its_answer_goes(talk)


async def test_a_question_that_was_answered_again_is_redacted_with_all_its_copies(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("First try."), Answer("Second try.")])
    secret = await talk.say(ANN, "my password is 4711", talk.channel)
    await talk.hear(talk.channel)
    await talk.until_delivered()
    await talk.press(ANN, talk.posts(talk.channel)[0], AGAIN)
    await talk.hear(talk.channel, 2)
    await talk.until_delivered(2)
    # The copy stays a copy.
    await talk.edit(secret, "my password is a secret")
    await talk.scene.until_value(1, "SELECT count(*) FROM inbox WHERE content = 'my password is a secret'")

    await talk.delete(secret)
    await talk.scene.until_value(2, "SELECT count(*) FROM inbox WHERE content = '[deleted]'")

    assert [row.content for row in await talk.scene.sql(KEPT) if "4711" in row.content] == []
