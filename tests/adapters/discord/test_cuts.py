"""Connections that break while something is read or written: tried again, and never the end of anything else."""

import asyncio

import pytest

from shared.db.database import Address
from tests.adapters.discord.conftest import Scene
from tests.adapters.discord.test_servers import invite
from tests.standins.discord import CUT, Fault, Json
from tests.standins.discord.world import EPHEMERAL
from tests.standins.openai_api import Answer, OpenAIStub

ALWAYS = 1_000_000
OPEN = "SELECT count(*) FROM inbox WHERE status <> 'answered'"


def cut(scene: Scene, method: str, path: str, times: int = 4, *, after: bool = False) -> Fault:
    fault = Fault(method, path, CUT, times=times, after=after)
    scene.discord.faults.append(fault)
    return fault


async def until_cut(scene: Scene, count: int = 1) -> None:
    await scene.discord.until(lambda: sum(request.status == CUT for request in scene.discord.journal) >= count)


async def test_a_first_mention_is_answered_with_its_context_when_the_history_breaks_off_at_first(pond: Scene) -> None:
    pond.model.play([Answer("Green.")])
    await pond.bob.says("frogs are green", pond.general, is_heard=False)
    cut(pond, "GET", f"/channels/{pond.general['id']}/messages")

    await pond.ann.asks("what colour?", pond.general)

    assert await pond.ann.hears(pond.general) == ["Green."]
    assert "Bob: frogs are green" in pond.prompt()


async def test_live_text_with_its_stop_button_is_shown_once_after_broken_connections(pond: Scene) -> None:
    end = asyncio.Event()
    pond.model.play([Answer("One two three.", chunk_chars=4, end=end)])
    cut(pond, "POST", "/messages", 1)
    cut(pond, "POST", "/messages", 1, after=True)

    await pond.ann.asks("count", pond.general)
    await pond.discord.until(lambda: [post for post in pond.ann.reads(pond.general) if post["components"]])
    await pond.until_value(True, "SELECT live_message_id IS NOT NULL FROM turns")
    end.set()
    await pond.until_value("delivered", "SELECT status FROM outbox")

    assert [post["content"] for post in pond.ann.reads(pond.general)] == ["One two three."]


async def test_a_first_mention_is_answered_without_context_when_the_history_stays_away(pond: Scene) -> None:
    pond.model.play([Answer("Hello.")])
    cut(pond, "GET", f"/channels/{pond.general['id']}/messages", ALWAYS)
    old = await pond.bob.says("an old one", pond.general, is_heard=False)

    await pond.ann.says(f"<@{pond.discord.world.bot['id']}> hi", pond.general, message_reference=reference(old))

    assert await pond.ann.hears(pond.general) == ["Hello."]


def reference(message: Json) -> Json:
    return {"message_id": message["id"], "channel_id": message["channel_id"]}


async def test_a_thread_for_a_question_is_opened_once_when_the_confirmation_is_cut_off(pond: Scene) -> None:
    pond.model.play([Answer("In here.")])
    await pond.sql(
        "INSERT INTO channel_modes (platform_channel_id, thread_per_question) VALUES (:c, true)", c=pond.general["id"]
    )
    cut(pond, "POST", "/threads", 1, after=True)

    question = await pond.ann.asks("how do frogs swim?", pond.general)
    thread = await pond.discord.until(lambda: pond.discord.world.channels.get(question["id"]))

    assert await pond.ann.hears(thread) == ["In here."]


async def test_a_typed_command_is_answered_once_when_connections_break(pond: Scene) -> None:
    pond.model.play([])
    cut(pond, "POST", "/users/@me/channels", 2)
    cut(pond, "POST", "/messages", 1)
    cut(pond, "POST", "/messages", 1, after=True)

    await pond.ann.asks("/budget", pond.general)
    await pond.discord.until(lambda: len(pond.discord.sent("POST", "/messages")) == 3)

    (result,) = await pond.ann.hears(pond.ann.dm())
    assert result.startswith("You have used 0 of")


async def test_a_new_server_is_greeted_when_connections_break(pond: Scene) -> None:
    lake, shore, joined = invite(pond)
    cut(pond, "POST", f"/channels/{shore['id']}/messages", 1, after=True)
    cut(pond, "GET", "/audit-logs", 3)

    await pond.discord.gateway.dispatch("GUILD_CREATE", joined, lake["id"])

    assert "Thank you for inviting me" in (await pond.bob.hears(pond.bob.dm()))[0]
    assert len(pond.bob.reads(shore)) == 1


async def test_a_summary_is_given_when_the_history_breaks_off_at_first(pond: Scene) -> None:
    pond.model.play([Answer("They croaked.")])
    first = await pond.bob.says("croak", pond.general)
    await pond.discord.until(lambda: pond.discord.commands)
    cut(pond, "GET", f"/channels/{pond.general['id']}/messages", 3)

    picked = await pond.ann.picks("Summarise from here", first)

    assert await picked.answered() == "They croaked."


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
        async with asyncio.timeout(30):
            assert await scene.ann.hears(broken) == ["Here."]
        await scene.until_value(0, OPEN)


@pytest.mark.parametrize("status", [500, CUT])
async def test_commands_and_forms_are_answered_as_ever_when_the_first_response_breaks(pond: Scene, status: int) -> None:
    pond.model.play([Answer("To all.")])
    await pond.discord.until(lambda: pond.discord.commands)
    faults = pond.discord.faults

    faults.append(Fault("POST", "/callback", status))
    interaction = await pond.ann.types("ask", pond.general, question="hello?")
    await pond.until_value("delivered", "SELECT status FROM outbox")
    opened_form = await (await pond.ann.types("credential", pond.general, sub="set", name="pms")).acked()
    faults.append(Fault("POST", "/callback", status, after=True))
    faults.append(Fault("PATCH", "/webhooks/", status))
    submission = await pond.ann.fills(opened_form, text="lantern-4711-heron")

    assert (await submission.answered()).startswith("I keep your credential pms")
    assert [(message["content"], message["flags"] & EPHEMERAL) for message in interaction.messages] == [("To all.", 0)]
    assert len(submission.messages) == 1
    # Nobody was told to try again.
    assert pond.discord.sent("POST", f"/webhooks/{pond.discord.bot_user_id}") == []
