"""Discord away for longer than it remembers nonces: answers arrive once, in order."""

from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Fault
from tests.standins.openai_api import Answer


async def test_answers_of_an_outage_arrive_once_and_in_order_when_discord_is_back(pond: Scene) -> None:
    pond.model.play([Answer(f"Answer {number}.") for number in range(6)])
    away = Fault("POST", "/messages", 503, times=1_000_000)
    pond.discord.faults.append(away)
    for number in range(3):
        await pond.ann.says(f"hello {number}", pond.ann.dm())
        await pond.until_value(2 * number + 1, "SELECT count(*) FROM inbox WHERE status = 'answered'")
        await pond.bob.says(f"hello {number}", pond.bob.dm())
        await pond.until_value(2 * number + 2, "SELECT count(*) FROM inbox WHERE status = 'answered'")
    await pond.until_value(True, "SELECT is_down FROM delivery_outages")
    assert await pond.value("SELECT count(*) FROM outbox WHERE status IN ('pending', 'claimed')") == 6
    away.times = 0
    await pond.sql("UPDATE delivery_outages SET next_probe_at = now()")

    for person in (pond.ann, pond.bob):
        heard = await person.hears(person.dm(), 3)
        assert heard == sorted(heard)
    await pond.until_value(6, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    assert await pond.value("SELECT count(*) FROM delivery_outages") == 0


async def test_an_answer_that_was_posted_before_its_delivery_ended_is_found_after_the_nonce_is_forgotten(
    pond: Scene,
) -> None:
    pond.model.play([Answer("Once.")])
    # It takes effect, but its answer is a 503.
    pond.discord.faults.append(Fault("POST", "/messages", 503, after=True))
    await pond.ann.says("hello", pond.ann.dm())
    await pond.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    pond.discord.forget_nonces()
    await pond.sql(
        "UPDATE outbox SET created_at = now() - interval '20 minutes', claimed_until = now(), tried_at = now()"
    )
    await pond.until_value("delivered", "SELECT status FROM outbox")

    heard = await pond.ann.hears(pond.ann.dm())
    assert len(heard) == 1
    assert heard[0].endswith("Once.")


async def test_the_answer_to_a_typed_command_arrives_when_discord_is_back(pond: Scene) -> None:
    away = [Fault("POST", path, 503, times=1_000_000) for path in ("/messages", "/users/@me/channels")]
    pond.discord.faults += away
    await pond.ann.says("/budget", pond.ann.dm())
    await pond.bob.asks("/me", pond.general)
    await pond.until_value(2, "SELECT count(*) FROM outbox WHERE status IN ('pending', 'claimed')")
    for fault in away:
        fault.times = 0
    await pond.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")
    await pond.sql("UPDATE delivery_outages SET next_probe_at = now()")

    assert "5,000 tokens" in (await pond.ann.hears(pond.ann.dm()))[0]
    assert "You are Bob" in (await pond.bob.hears(pond.bob.dm()))[0]
    assert pond.bob.reads(pond.general) == []
    await pond.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")


async def test_the_late_answer_to_a_command_has_its_buttons(pond: Scene) -> None:
    pond.model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes frogs"})]), Answer("Noted.")])
    await pond.ann.says("I like frogs", pond.ann.dm())
    await pond.until_value("delivered", "SELECT status FROM outbox")
    away = Fault("POST", "/messages", 503, times=1_000_000)
    pond.discord.faults.append(away)
    await pond.ann.says("/memory forget about frogs", pond.ann.dm())
    await pond.until_value(1, "SELECT count(*) FROM outbox WHERE status IN ('pending', 'claimed')")
    away.times = 0
    await pond.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")
    await pond.sql("UPDATE delivery_outages SET next_probe_at = now()")

    assert "Ann likes frogs" in (await pond.ann.hears(pond.ann.dm(), 2))[1]
    confirmation = await pond.ann.clicks(pond.ann.reads(pond.ann.dm())[1], "Yes, do it")
    await pond.discord.until(lambda: "I have forgotten" in confirmation.text)


async def test_the_answer_to_a_typed_command_that_was_posted_in_an_outage_is_not_posted_again(pond: Scene) -> None:
    away = Fault("POST", "/messages", 503, times=1_000_000, after=True)
    pond.discord.faults.append(away)
    await pond.ann.says("/budget", pond.ann.dm())
    await pond.until_value(1, "SELECT count(*) FROM outbox")
    away.times = 0
    await pond.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")
    await pond.until_value("delivered", "SELECT status FROM outbox")

    assert len(await pond.ann.hears(pond.ann.dm())) == 1


async def test_the_answer_to_a_slash_command_whose_response_is_gone_comes_as_a_direct_message(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.discord.faults.append(Fault("POST", "/callback", 404, code=10062))

    await pond.ann.types("budget", pond.general)

    assert "5,000 tokens" in (await pond.ann.hears(pond.ann.dm()))[0]
    assert pond.ann.reads(pond.general) == []


async def test_one_channel_that_answers_503_holds_up_no_other(pond: Scene) -> None:
    pond.model.play([Answer("One."), Answer("Two.")])
    pond.discord.faults.append(Fault("POST", f"/channels/{pond.general['id']}/messages", 503, times=1_000_000))
    await pond.ann.asks("hello", pond.general)
    await pond.until_value(True, "SELECT error IS NOT NULL FROM outbox")

    await pond.ann.says("hello", pond.ann.dm())

    assert await pond.ann.hears(pond.ann.dm()) == ["Two."]
