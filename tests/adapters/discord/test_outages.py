"""Discord away for longer than it remembers nonces: answers arrive once, in order."""

import asyncpg
import pytest

from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Fault
from tests.standins.openai_api import Answer
from tests.support.chat_scene import DIES_BEFORE_ITS_NOTE_IS_REMOVED

# Replies to commands that the platform has not taken.
# Replies that are found when the person is erased whose command they answer.
OF_SOMEBODY = """
SELECT count(*) FROM outbox WHERE reply_to LIKE 'direct:%' OR reply_to IN (SELECT platform_message_id FROM inbox)
"""
KEPT = "SELECT count(*) FROM outbox WHERE status IN ('pending', 'claimed') AND error IS NOT NULL"


async def test_answers_of_an_outage_arrive_once_and_in_order_when_discord_is_back(server: Scene) -> None:
    server.model.play([Answer(f"Answer {number}.") for number in range(6)])
    away = Fault("POST", "/messages", 503, times=1_000_000)
    server.discord.faults.append(away)
    for number in range(3):
        await server.ann.says(f"hello {number}", server.ann.dm())
        await server.until_value(2 * number + 1, "SELECT count(*) FROM inbox WHERE status = 'answered'")
        await server.bob.says(f"hello {number}", server.bob.dm())
        await server.until_value(2 * number + 2, "SELECT count(*) FROM inbox WHERE status = 'answered'")
    await server.until_value(True, "SELECT is_down FROM delivery_outages")
    assert await server.value("SELECT count(*) FROM outbox WHERE status IN ('pending', 'claimed')") == 6
    away.times = 0
    await server.sql("UPDATE delivery_outages SET next_probe_at = now()")

    for person in (server.ann, server.bob):
        heard = await person.hears(person.dm(), 3)
        assert heard == sorted(heard)
    await server.until_value(6, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    assert await server.value("SELECT count(*) FROM delivery_outages") == 0


async def test_an_answer_that_was_posted_before_its_delivery_ended_is_found_after_the_nonce_is_forgotten(
    server: Scene,
) -> None:
    server.model.play([Answer("Once.")])
    # It takes effect, but its answer is a 503.
    server.discord.faults.append(Fault("POST", "/messages", 503, after=True))
    await server.ann.says("hello", server.ann.dm())
    await server.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    server.discord.forget_nonces()
    await server.sql(
        "UPDATE outbox SET created_at = now() - interval '20 minutes', claimed_until = now(), tried_at = now()"
    )
    await server.until_value("delivered", "SELECT status FROM outbox")

    heard = await server.ann.hears(server.ann.dm())
    assert len(heard) == 1
    assert heard[0].endswith("Once.")


async def test_the_answer_to_a_typed_command_arrives_when_discord_is_back(server: Scene) -> None:
    away = [Fault("POST", path, 503, times=1_000_000) for path in ("/messages", "/users/@me/channels")]
    server.discord.faults += away
    await server.ann.says("/budget", server.ann.dm())
    await server.bob.asks("/me", server.general)
    await server.until_value(2, KEPT)
    for fault in away:
        fault.times = 0
    await server.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")
    await server.sql("UPDATE delivery_outages SET next_probe_at = now()")

    assert "5,000 tokens" in (await server.ann.hears(server.ann.dm()))[0]
    assert "You are Bob" in (await server.bob.hears(server.bob.dm()))[0]
    assert server.bob.reads(server.general) == []
    await server.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")


async def test_what_a_button_is_answered_with_is_shown_once_when_its_process_dies_before_it_notes_that(
    server: Scene, owner: asyncpg.Connection
) -> None:
    await server.ann.says("hello", server.ann.dm())
    await server.until_value("delivered", "SELECT status FROM outbox")
    await owner.execute("INSERT INTO memories (user_id, scope, content) SELECT id, 'private', 'boats' FROM users")
    await server.ann.says("/memory forget all", server.ann.dm())
    await server.ann.hears(server.ann.dm(), 2)
    await server.until_value(1, "SELECT count(*) FROM outbox")
    await owner.execute(DIES_BEFORE_ITS_NOTE_IS_REMOVED)

    await server.ann.clicks(server.ann.reads(server.ann.dm())[1], "Yes, do it")

    await server.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    texts = [message["content"] for message in server.ann.reads(server.ann.dm())]
    assert len(texts) == 2
    assert "forgotten" in texts[1]


async def test_the_late_answer_to_a_command_has_its_buttons(server: Scene) -> None:
    server.model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes bikes"})]), Answer("Noted.")])
    await server.ann.says("I like bikes", server.ann.dm())
    await server.until_value("delivered", "SELECT status FROM outbox")
    away = Fault("POST", "/messages", 503, times=1_000_000)
    server.discord.faults.append(away)
    await server.ann.says("/memory forget about bikes", server.ann.dm())
    await server.until_value(1, KEPT)
    away.times = 0
    await server.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")
    await server.sql("UPDATE delivery_outages SET next_probe_at = now()")

    assert "Ann likes bikes" in (await server.ann.hears(server.ann.dm(), 2))[1]
    confirmation = await server.ann.clicks(server.ann.reads(server.ann.dm())[1], "Yes, do it")
    await server.discord.until(lambda: "I have forgotten" in confirmation.text)


@pytest.mark.parametrize(("command", "answer"), [("/budget", "5,000 tokens"), ("/login", "This link opens")])
async def test_the_answer_to_a_typed_command_that_was_posted_in_an_outage_is_not_posted_again(
    server: Scene, command: str, answer: str
) -> None:
    away = Fault("POST", "/messages", 503, times=1_000_000, after=True)
    server.discord.faults.append(away)
    await server.ann.says(command, server.ann.dm())
    await server.until_value(1, KEPT)
    away.times = 0
    await server.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")
    await server.until_value("delivered", "SELECT status FROM outbox")

    (shown,) = await server.ann.hears(server.ann.dm())
    assert answer in shown


async def test_the_answer_to_a_slash_command_whose_response_is_gone_comes_as_a_direct_message(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.discord.faults.append(Fault("POST", "/callback", 404, code=10062))

    await server.ann.types("budget", server.general)

    assert "5,000 tokens" in (await server.ann.hears(server.ann.dm()))[0]
    assert server.ann.reads(server.general) == []
    # A link that signs in is stored nowhere.
    server.discord.faults.append(Fault("POST", "/callback", 404, code=10062))
    await server.ann.types("login", server.general)
    await server.discord.until(lambda: len(server.ann.reads(server.ann.dm())) == 2)
    assert server.ann.reads(server.ann.dm())[1]["content"].startswith("I could not answer in time")
    assert await server.value("SELECT count(*) FROM outbox WHERE content LIKE '%key=%'") == 0


@pytest.mark.parametrize(
    ("command", "answer"),
    [("budget", "5,000 tokens"), ("login", "This link opens"), ("reset", "Nothing has")],
)
async def test_the_answer_to_a_slash_command_is_shown_once_when_its_process_dies_before_it_notes_that(
    server: Scene, owner: asyncpg.Connection, command: str, answer: str
) -> None:
    await server.discord.until(lambda: server.discord.commands)
    await server.ann.types("budget", server.general)
    await server.until_value(1, "SELECT count(*) FROM users")
    await server.sql("UPDATE users SET permission_level = 'user'")
    await server.until_value(0, "SELECT count(*) FROM outbox")
    await owner.execute(DIES_BEFORE_ITS_NOTE_IS_REMOVED)

    interaction = await server.ann.types(command, server.general)

    assert answer in await interaction.answered()
    await server.until_value("delivered", "SELECT status FROM outbox")
    assert answer in interaction.text
    assert len(interaction.messages) == 1
    assert server.ann.reads(server.ann.dm()) == []
    assert await server.value(OF_SOMEBODY) == 1


async def test_a_command_that_fails_on_discord_is_answered_once(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.discord.faults.append(Fault("POST", "/callback", 400, code=50035))

    await server.ann.types("budget", server.general)

    assert "5,000 tokens" in (await server.ann.hears(server.ann.dm()))[0]
    await server.until_value("delivered", "SELECT status FROM outbox")
    assert len(server.ann.reads(server.ann.dm())) == 1


async def test_one_channel_that_answers_503_holds_up_no_other(server: Scene) -> None:
    server.model.play([Answer("One."), Answer("Two.")])
    server.discord.faults.append(Fault("POST", f"/channels/{server.general['id']}/messages", 503, times=1_000_000))
    await server.ann.asks("hello", server.general)
    await server.until_value(True, "SELECT error IS NOT NULL FROM outbox")

    await server.ann.says("hello", server.ann.dm())

    assert await server.ann.hears(server.ann.dm()) == ["Two."]
