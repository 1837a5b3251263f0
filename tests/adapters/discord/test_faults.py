"""What Discord refuses or breaks: waited for, told once, and never lost without a word."""

from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Fault
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import held


async def test_rate_limits_of_a_route_and_of_everything_are_waited_for(pond: Scene) -> None:
    pond.model.play([Answer("One."), Answer("Two.")])
    pond.discord.faults.append(Fault("POST", "/messages", 429))

    await pond.ann.says("hello", pond.ann.dm())
    await pond.ann.hears(pond.ann.dm())
    pond.discord.faults.append(Fault("POST", "/messages", 429, is_global=True))
    await pond.ann.says("hello", pond.ann.dm())

    assert await pond.ann.hears(pond.ann.dm(), 2) == ["One.", "Two."]


async def test_a_server_that_fails_for_long_gets_the_reply_later(pond: Scene) -> None:
    pond.model.play([Answer("At last.")])
    pond.discord.faults.append(Fault("POST", "/messages", 503))

    await pond.ann.says("hello", pond.ann.dm())
    await pond.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    await pond.sql("UPDATE outbox SET claimed_until = now()")

    assert await pond.ann.hears(pond.ann.dm()) == ["At last."]


async def test_a_channel_where_it_may_not_write_is_told_once_by_direct_message(pond: Scene) -> None:
    pond.model.play([Answer("One."), Answer("Two.")])
    pond.discord.world.forbid(pond.general, "send_messages")

    await pond.ann.asks("hello", pond.general)
    (notice,) = await pond.ann.hears(pond.ann.dm())
    await pond.until_value("failed", "SELECT status FROM outbox")
    await pond.ann.asks("hello again", pond.general)
    await pond.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'failed'")

    assert notice.startswith(f"I have an answer for you in <#{pond.general['id']}>, but I may not write there")
    assert len(pond.ann.reads(pond.ann.dm())) == 1
    assert len(pond.discord.sent("POST", f"/channels/{pond.general['id']}/messages")) == 2


async def test_a_channel_that_is_deleted_meanwhile_ends_the_delivery(pond: Scene) -> None:
    hold, script = held("Too late.")
    pond.model.play(script)
    await pond.ann.asks("hello", pond.general)
    await pond.model.until(1)
    del pond.discord.world.channels[pond.general["id"]]
    hold.set()

    assert (await pond.ann.hears(pond.ann.dm()))[0].endswith("the channel is gone.")
    await pond.until_value("failed", "SELECT status FROM outbox")


async def test_who_takes_no_direct_messages_stays_without_a_notice(pond: Scene) -> None:
    pond.model.play([Answer("One.")])
    pond.discord.world.forbid(pond.general, "send_messages")
    pond.discord.faults.append(Fault("POST", "/users/@me/channels", 403, code=50007))

    await pond.ann.asks("hello", pond.general)
    await pond.until_value("failed", "SELECT status FROM outbox")

    assert await pond.value("SELECT error FROM outbox") == "Discord refuses this: 403 Missing Permissions."


async def test_a_token_that_is_revoked_while_it_runs_leaves_the_reply_for_later(pond: Scene) -> None:
    pond.model.play([Answer("With the new token.")])
    old, pond.discord.token = pond.discord.token, "another"

    await pond.ann.says("hello", pond.ann.dm())
    await pond.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    pond.discord.token = old
    await pond.sql("UPDATE outbox SET claimed_until = now()")

    assert await pond.ann.hears(pond.ann.dm()) == ["With the new token."]


async def test_a_bot_that_may_not_type_answers_all_the_same(pond: Scene) -> None:
    pond.model.play([Answer("Slow but sure.", delay=1.3)])
    pond.discord.faults.append(Fault("POST", "/typing", 403, code=50013))

    await pond.ann.asks("hello", pond.general)

    assert await pond.ann.hears(pond.general) == ["Slow but sure."]
