"""Messages that are edited or deleted after they were sent."""

import asyncio

from shared.database import Address
from tests.adapters.discord.conftest import Scene, opened
from tests.standins.openai_api import Answer, OpenAIStub


async def test_an_edit_before_the_turn_replaces_the_text(scene: Scene, address: Address, model: OpenAIStub) -> None:
    model.play([Answer("Toads.")])
    async with opened(scene, address, model, works=False):
        asked = await scene.ann.says("tell me of forgs", scene.ann.dm())
        await scene.until_value(1, "SELECT count(*) FROM inbox")
        await scene.ann.edits(asked, "tell me of toads")
        await scene.until_value("tell me of toads", "SELECT content FROM inbox")
    await scene.discord.gateway.until_gone()

    async with opened(scene, address, model):
        await scene.ann.hears(scene.ann.dm())

    assert "tell me of toads" in scene.prompt()
    labels = [
        each.get("label") for row in scene.ann.reads(scene.ann.dm())[0]["components"] for each in row["components"]
    ]
    assert "Answer the edited message" not in labels


async def test_an_edit_after_the_answer_offers_another_one(pond: Scene) -> None:
    pond.model.play([Answer("Of forgs."), Answer("Of frogs.")])
    asked = await pond.ann.says("tell me of forgs", pond.ann.dm())
    await pond.ann.hears(pond.ann.dm())
    await pond.until_value("delivered", "SELECT status FROM outbox")
    await pond.ann.edits(asked, "tell me of frogs")

    answer = pond.ann.reads(pond.ann.dm())[0]
    await pond.discord.until(lambda: answer["components"][0]["components"][0].get("label"))
    await (await pond.ann.clicks(answer, "Answer the edited message")).acked()

    assert await pond.ann.hears(pond.ann.dm(), 2) == ["Of forgs.", "Of frogs."]
    assert "tell me of frogs" in pond.prompt()


async def test_an_edit_while_the_turn_runs_is_offered_with_its_answer(pond: Scene) -> None:
    hold = asyncio.Event()

    async def held(_body: object, _number: int) -> Answer:
        await hold.wait()
        return Answer("Of forgs.")

    pond.model.play(held)
    asked = await pond.ann.says("tell me of forgs", pond.ann.dm())
    await pond.model.until(1)
    await pond.ann.edits(asked, "tell me of frogs")
    await pond.until_value("tell me of frogs", "SELECT content FROM inbox")
    hold.set()

    await pond.ann.hears(pond.ann.dm())
    first = pond.ann.reads(pond.ann.dm())[0]["components"][0]["components"][0]
    assert first["label"] == "Answer the edited message"


async def test_a_message_that_is_deleted_before_its_turn_is_not_answered(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Only this.")])
    async with opened(scene, address, model, works=False):
        secret = await scene.ann.says("my password is frog", scene.ann.dm())
        await scene.until_value(1, "SELECT count(*) FROM inbox")
        await scene.ann.deletes(secret)
        await scene.until_value("cancelled", "SELECT status FROM inbox")
    await scene.discord.gateway.until_gone()

    async with opened(scene, address, model):
        await scene.ann.says("hello", scene.ann.dm())
        assert await scene.ann.hears(scene.ann.dm()) == ["Only this."]
        assert "password" not in scene.prompt()
        assert await scene.sql("SELECT content, status FROM inbox ORDER BY id") == [
            ("[deleted]", "cancelled"),
            ("hello", "answered"),
        ]


async def test_what_was_answered_and_is_deleted_is_redacted_everywhere(pond: Scene) -> None:
    pond.model.play([Answer("I see."), Answer("What?")])
    secret = await pond.ann.says("my password is frog", pond.ann.dm())
    await pond.ann.hears(pond.ann.dm())

    await pond.ann.deletes(secret)
    await pond.until_value("[deleted]", "SELECT content FROM inbox")
    await pond.ann.says("what did I say?", pond.ann.dm())
    await pond.ann.hears(pond.ann.dm(), 2)

    assert "frog" not in str(pond.model.requests[-1].body["messages"])
    kept = await pond.sql(
        "SELECT content FROM inbox UNION ALL SELECT content FROM messages"
        " UNION ALL SELECT CAST(payload AS text) FROM turn_events"
    )
    assert [row.content for row in kept if "frog" in row.content] == []
