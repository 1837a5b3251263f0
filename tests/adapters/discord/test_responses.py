"""Answers to interactions whose confirmation is lost, and questions that are deleted while they are answered."""

import asyncio

import pytest

from tests.adapters.discord.conftest import Scene
from tests.standins.discord import CUT, Fault, Interaction
from tests.standins.openai_api import Answer

LONG = "\n\n".join(f"Paragraph {number}. " + "word " * 60 for number in range(18))
RETRY = "UPDATE outbox SET claimed_until = now() WHERE status = 'pending'"
# A row as a worker leaves it that dies after Discord has taken the reply, and before it has noted that.
FORGET_DELIVERY = (
    "UPDATE outbox SET status = 'pending', delivered_at = NULL, platform_message_id = NULL, claimed_until = now()"
)


DELIVERED = "SELECT count(*) FROM outbox WHERE status = 'delivered'"


async def until_delivered(server: Scene, count: int) -> None:
    """Return once so many replies are delivered; one whose delivery failed is tried again at once, not later."""
    while await server.value(DELIVERED) < count:
        await server.sql(RETRY + " AND error IS NOT NULL")
        await server.sql("SELECT pg_sleep(0.05)")


async def ask_for_a_long_answer(server: Scene) -> Interaction:
    await server.discord.until(lambda: server.discord.commands)
    server.model.play([Answer(LONG)])
    return await server.ann.types("ask", server.general, question="a story, please")


def assert_told_once(parts: list[str]) -> None:
    assert len(parts) == 3
    assert [text.count(f"Paragraph {number}.") for number in range(18) for text in ["\n".join(parts)]] == [1] * 18


@pytest.mark.parametrize("status", [500, CUT])
async def test_a_part_of_an_answer_whose_confirmation_is_lost_is_not_sent_again(server: Scene, status: int) -> None:
    server.discord.faults.append(Fault("POST", "/webhooks/", status, after=True))

    await ask_for_a_long_answer(server)
    await server.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    await server.sql(RETRY)
    await server.until_value("delivered", "SELECT status FROM outbox")

    assert_told_once([post["content"] for post in server.ann.reads(server.general)])


async def test_the_parts_of_an_answer_are_not_sent_again_after_the_death_of_a_worker(server: Scene) -> None:
    await ask_for_a_long_answer(server)
    await server.until_value("delivered", "SELECT status FROM outbox")
    await server.sql(FORGET_DELIVERY)
    await server.until_value("delivered", "SELECT status FROM outbox")

    assert_told_once([post["content"] for post in server.ann.reads(server.general)])


@pytest.mark.parametrize("status", [500, CUT])
async def test_a_private_answer_is_one_message_also_when_its_confirmation_is_lost(server: Scene, status: int) -> None:
    await server.discord.until(lambda: server.discord.commands)
    first = await server.bob.says("entry", server.general)
    server.model.play([Answer(LONG), Answer("Once more. " + LONG)])
    server.discord.faults.append(Fault("PATCH", "/webhooks/", status, after=True))
    picked = await server.ann.picks("Summarise from here", first)
    await until_delivered(server, 1)
    server.discord.faults.append(Fault("PATCH", "/webhooks/", status, times=2, after=True))
    again = await server.ann.clicks(picked.messages[0], "🔄")
    await until_delivered(server, 2)
    await server.sql(FORGET_DELIVERY)
    await server.until_value(2, DELIVERED)

    for interaction, beginning in ((picked, "Paragraph 0."), (again, "Once more.")):
        (post,) = interaction.messages
        assert post["content"].startswith(beginning)
        assert [attachment["filename"] for attachment in post["attachments"]] == ["answer.md"]
    assert server.ann.reads(server.general) == []


async def test_the_answer_to_a_deleted_question_goes_also_when_the_connection_breaks(server: Scene) -> None:
    never = asyncio.Event()
    server.model.play([Answer("One two three.", end=never)])
    question = await server.ann.asks("count", server.general)
    (live,) = await server.discord.until(lambda: server.ann.reads(server.general))
    await server.until_value(True, "SELECT live_message_id IS NOT NULL FROM turns")
    server.discord.faults.append(Fault("DELETE", live["id"], CUT))

    await server.ann.deletes(question)

    await server.discord.until(lambda: server.ann.reads(server.general) == [], 30)
    await server.until_value("cancelled", "SELECT status FROM turns")
