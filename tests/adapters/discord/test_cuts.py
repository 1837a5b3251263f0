"""Connections that break while something is read or written: tried again, and never the end of anything else."""

import asyncio

import pytest

from shared.db.database import Address
from tests.adapters.discord.conftest import Scene
from tests.adapters.discord.test_servers import invite
from tests.standins.discord import CUT, Fault, Json
from tests.standins.discord.world import EPHEMERAL
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.eventually import PATIENCE

ALWAYS = 1_000_000
OPEN = "SELECT count(*) FROM inbox WHERE status <> 'answered'"


def cut(scene: Scene, method: str, path: str, times: int = 4, *, after: bool = False) -> Fault:
    fault = Fault(method, path, CUT, times=times, after=after)
    scene.discord.faults.append(fault)
    return fault


async def until_cut(scene: Scene, count: int = 1) -> None:
    await scene.discord.until(lambda: sum(request.status == CUT for request in scene.discord.journal) >= count)


async def test_a_first_mention_is_answered_with_its_context_when_the_history_breaks_off_at_first(server: Scene) -> None:
    server.model.play([Answer("Green.")])
    await server.bob.says("bikes are green", server.general, is_heard=False)
    cut(server, "GET", f"/channels/{server.general['id']}/messages")

    await server.ann.asks("what colour?", server.general)

    assert await server.ann.hears(server.general) == ["Green."]
    assert "Bob: bikes are green" in server.prompt()


async def test_live_text_with_its_stop_button_is_shown_once_after_broken_connections(server: Scene) -> None:
    end = asyncio.Event()
    server.model.play([Answer("One two three.", chunk_chars=4, end=end)])
    cut(server, "POST", "/messages", 1)
    cut(server, "POST", "/messages", 1, after=True)

    await server.ann.asks("count", server.general)
    await server.discord.until(lambda: [post for post in server.ann.reads(server.general) if post["components"]])
    await server.until_value(True, "SELECT live_message_id IS NOT NULL FROM turns")
    end.set()
    await server.until_value("delivered", "SELECT status FROM outbox")

    assert [post["content"] for post in server.ann.reads(server.general)] == ["One two three."]


async def test_a_first_mention_is_answered_without_context_when_the_history_stays_away(server: Scene) -> None:
    server.model.play([Answer("Hello.")])
    cut(server, "GET", f"/channels/{server.general['id']}/messages", ALWAYS)
    old = await server.bob.says("an old one", server.general, is_heard=False)

    await server.ann.says(f"<@{server.discord.world.bot['id']}> hi", server.general, message_reference=reference(old))

    assert await server.ann.hears(server.general) == ["Hello."]


def reference(message: Json) -> Json:
    return {"message_id": message["id"], "channel_id": message["channel_id"]}


async def test_a_thread_for_a_question_is_opened_once_when_the_confirmation_is_cut_off(server: Scene) -> None:
    server.model.play([Answer("In here.")])
    await server.sql(
        "INSERT INTO channel_modes (platform_channel_id, thread_per_question) VALUES (:c, true)", c=server.general["id"]
    )
    cut(server, "POST", "/threads", 1, after=True)

    question = await server.ann.asks("how do bikes swim?", server.general)
    thread = await server.discord.until(lambda: server.discord.world.channels.get(question["id"]))

    assert await server.ann.hears(thread) == ["In here."]


async def test_a_typed_command_is_answered_once_when_connections_break(server: Scene) -> None:
    server.model.play([])
    cut(server, "POST", "/users/@me/channels", 2)
    cut(server, "POST", "/messages", 1)
    cut(server, "POST", "/messages", 1, after=True)

    await server.ann.asks("/budget", server.general)
    await server.discord.until(lambda: len(server.discord.sent("POST", "/messages")) == 3)

    (result,) = await server.ann.hears(server.ann.dm())
    assert result.startswith(f"About <#{server.general['id']}>\n\nYou have used 0 of")


async def test_a_new_server_is_greeted_when_connections_break(server: Scene) -> None:
    lake, shore, joined = invite(server)
    cut(server, "POST", f"/channels/{shore['id']}/messages", 1, after=True)
    cut(server, "GET", "/audit-logs", 3)

    await server.discord.gateway.dispatch("GUILD_CREATE", joined, lake["id"])

    assert "Thank you for inviting me" in (await server.bob.hears(server.bob.dm()))[0]
    assert len(server.bob.reads(shore)) == 1


async def test_a_summary_is_given_when_the_history_breaks_off_at_first(server: Scene) -> None:
    server.model.play([Answer("They entryed.")])
    first = await server.bob.says("entry", server.general)
    await server.discord.until(lambda: server.discord.commands)
    cut(server, "GET", f"/channels/{server.general['id']}/messages", 3)

    picked = await server.ann.picks("Summarise from here", first)

    assert await picked.answered() == "They entryed."


async def test_commands_are_registered_when_the_connection_breaks_at_first(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    cut(scene, "PUT", "/commands", 3)
    async with scene.opened(address, model):
        assert await scene.discord.until(lambda: scene.discord.commands)


async def test_a_login_that_is_cut_off_is_made_again_without_a_traceback(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(scene, "GET", "/users/@me", 2)
    model.play([Answer("Hello.")])
    async with scene.opened(address, model):
        await scene.ann.says("hello", scene.ann.dm())
        assert await scene.ann.hears(scene.ann.dm()) == ["Hello."]
    assert "Traceback" not in capsys.readouterr().out


async def test_a_channel_whose_history_breaks_off_keeps_no_other_channel_waiting_and_is_read_later(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    broken = scene.discord.world.add_channel(scene.guild["id"], "broken")
    other = scene.discord.world.add_channel(scene.guild["id"], "other")
    async with scene.opened(address, model):
        await scene.ann.says("hello", scene.ann.dm())
        await scene.ann.hears(scene.ann.dm())
        await scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")
    await scene.ann.asks("in the broken one", broken, is_heard=False)
    await scene.ann.asks("in the other", other, is_heard=False)
    await scene.ann.says("directly", scene.ann.dm(), is_heard=False)

    fault = cut(scene, "GET", f"/channels/{broken['id']}/messages", ALWAYS)
    async with scene.opened(address, model):
        await scene.ann.hears(other)
        await scene.ann.hears(scene.ann.dm(), 2)
        await until_cut(scene, 3)
        fault.times = 0
        async with asyncio.timeout(PATIENCE):
            assert await scene.ann.hears(broken) == ["Here."]
        await scene.until_value(0, OPEN)


@pytest.mark.parametrize("status", [500, CUT])
async def test_commands_and_forms_are_answered_as_ever_when_the_first_response_breaks(
    server: Scene, status: int
) -> None:
    server.model.play([Answer("To all.")])
    await server.discord.until(lambda: server.discord.commands)
    faults = server.discord.faults

    faults.append(Fault("POST", "/callback", status))
    interaction = await server.ann.types("ask", server.general, question="hello?")
    await server.until_value("delivered", "SELECT status FROM outbox")
    opened_form = await (await server.ann.types("credential", server.general, sub="set", name="pms")).acked()
    faults.append(Fault("POST", "/callback", status, after=True))
    faults.append(Fault("PATCH", "/webhooks/", status))
    submission = await server.ann.fills(opened_form, text="lantern-4711-wagon")

    assert (await submission.answered()).startswith("I keep your credential pms")
    assert [(message["content"], message["flags"] & EPHEMERAL) for message in interaction.messages] == [("To all.", 0)]
    assert len(submission.messages) == 1
    # Nobody was told to try again.
    assert server.discord.sent("POST", f"/webhooks/{server.discord.bot_user_id}") == []
