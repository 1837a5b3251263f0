"""What the app answers to, and what it knows of the place it was called in."""

from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer


async def test_a_direct_message_is_answered(office: Scene) -> None:
    office.model.play([Answer("Hi Ann.")])

    await office.ann.direct("hello")

    assert await office.ann.hears() == ["Hi Ann."]
    assert await office.sql("SELECT platform_username, is_direct, platform_thread_id FROM inbox") == [
        ("ann", True, None)
    ]
    assert office.refusals() == []


async def test_a_mention_in_a_channel_is_answered_once_in_a_thread(office: Scene) -> None:
    office.model.play([Answer("Hi Ann."), Answer("And Bob.")])

    asked = await office.ann.mentions(office.general, "hello")
    assert await office.ann.hears(office.general) == ["Hi Ann."]
    await office.bob.posts(office.general, "and me?", thread_ts=asked["ts"])

    assert await office.ann.hears(office.general, 2, thread_ts=asked["ts"]) == ["Hi Ann.", "And Bob."]
    assert await office.sql("SELECT content FROM inbox ORDER BY id") == [("hello",), ("and me?",)]
    assert office.refusals() == []
