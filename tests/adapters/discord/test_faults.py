"""What Discord refuses or breaks: waited for, told once, and never lost without a word."""

from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Fault
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import gated_answer


async def test_rate_limits_of_a_route_and_of_everything_are_waited_for(server: Scene) -> None:
    server.model.play([Answer("One."), Answer("Two.")])
    server.discord.faults.append(Fault("POST", "/messages", 429))

    await server.ann.says("hello", server.ann.dm())
    await server.ann.hears(server.ann.dm())
    server.discord.faults.append(Fault("POST", "/messages", 429, is_global=True))
    await server.ann.says("hello", server.ann.dm())

    assert await server.ann.hears(server.ann.dm(), 2) == ["One.", "Two."]


async def test_a_server_that_fails_for_long_gets_the_reply_later(server: Scene) -> None:
    server.model.play([Answer("At last.")])
    server.discord.faults.append(Fault("POST", "/messages", 503))

    await server.ann.says("hello", server.ann.dm())
    await server.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    await server.sql("UPDATE outbox SET claimed_until = now()")

    assert await server.ann.hears(server.ann.dm()) == ["At last."]


async def test_a_channel_where_it_may_not_write_is_told_once_by_direct_message(server: Scene) -> None:
    server.model.play([Answer("One."), Answer("Two.")])
    server.discord.world.forbid(server.general, "send_messages")

    await server.ann.asks("hello", server.general)
    (notice,) = await server.ann.hears(server.ann.dm())
    await server.until_value("failed", "SELECT status FROM outbox")
    await server.ann.asks("hello again", server.general)
    await server.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'failed'")

    assert notice.startswith(f"I have an answer for you in <#{server.general['id']}>, but I may not write there")
    assert len(server.ann.reads(server.ann.dm())) == 1
    assert len(server.discord.sent("POST", f"/channels/{server.general['id']}/messages")) == 2


async def test_a_channel_that_is_deleted_meanwhile_ends_the_delivery(server: Scene) -> None:
    hold, script = gated_answer("Too late.")
    server.model.play(script)
    await server.ann.asks("hello", server.general)
    await server.model.until(1)
    del server.discord.world.channels[server.general["id"]]
    hold.set()

    assert (await server.ann.hears(server.ann.dm()))[0].endswith("the channel is gone.")
    await server.until_value("failed", "SELECT status FROM outbox")


async def test_who_takes_no_direct_messages_stays_without_a_notice(server: Scene) -> None:
    server.model.play([Answer("One.")])
    server.discord.world.forbid(server.general, "send_messages")
    server.discord.faults.append(Fault("POST", "/users/@me/channels", 403, code=50007))

    await server.ann.asks("hello", server.general)
    await server.until_value("failed", "SELECT status FROM outbox")

    assert await server.value("SELECT error FROM outbox") == "Discord refuses this: 403 Missing Permissions."


async def test_a_token_that_is_revoked_while_it_runs_leaves_the_reply_for_later(server: Scene) -> None:
    server.model.play([Answer("With the new token.")])
    old, server.discord.token = server.discord.token, "another"

    await server.ann.says("hello", server.ann.dm())
    await server.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    server.discord.token = old
    await server.sql("UPDATE outbox SET claimed_until = now()")

    assert await server.ann.hears(server.ann.dm()) == ["With the new token."]


async def test_a_bot_that_may_not_type_answers_all_the_same(server: Scene) -> None:
    server.model.play([Answer("Slow but sure.", delay=1.3)])
    server.discord.faults.append(Fault("POST", "/typing", 403, code=50013))

    await server.ann.asks("hello", server.general)

    assert await server.ann.hears(server.general) == ["Slow but sure."]
