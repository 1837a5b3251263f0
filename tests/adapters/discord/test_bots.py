"""Several bots of one installation: each has its servers, shards, pace and commands; one of them answers a message."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from adapters.discord.platform import DiscordPlatform
from shared.db.database import Address
from shared.errors import ConfigurationError
from tests.adapters.cli.shell import Shell
from tests.adapters.discord.conftest import Scene
from tests.bench.children import running_child
from tests.standins.discord import DiscordStandIn, Json, Person
from tests.standins.discord.world import LONG_AGO
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import child_environment, ended
from tests.support.forks import get_command
from tests.support.parley import open_parley

REFUSED = "Discord refuses the token; make a new one in the developer portal and set DISCORD_TOKEN."

pytestmark = pytest.mark.settings(default_guest_token_budget=1_000_000)


@dataclass
class Bots:
    """A scene with a second bot, and Ann as she talks to that one."""

    scene: Scene
    helper: DiscordStandIn
    ann: Person

    def build(self) -> Sequence[DiscordPlatform]:
        """Return a platform for each bot."""
        return [DiscordPlatform(self.scene.own, bot.adapter) for bot in self.scene.own.bots]

    @asynccontextmanager
    async def opened(self, address: Address, model: OpenAIStub, *, listens: bool = True) -> AsyncIterator[None]:
        """Open Parley with both bots connected, as one process has them; without `listens` it only sends."""
        platforms = self.build()
        senders = {adapter: platform for platform in platforms for adapter in platform.adapters}
        async with open_parley(self.scene.settings, address, model, senders=senders) as self.scene.parley:
            listeners = platforms if listens else []
            tasks = [asyncio.create_task(platform.listen(self.scene.parley.app)) for platform in listeners]
            try:
                await self.scene.discord.gateway.until(len(listeners))
                yield
            finally:
                for task in tasks:
                    await ended(task)

    def add_server(self) -> Json:
        """Return a channel of a server on which only the second bot is."""
        guild = self.helper.world.add_guild("Other", self.ann.user)
        return self.helper.world.add_channel(guild["id"], "general")

    def join(self) -> None:
        """Have the second bot on the server of the first, for long."""
        self.helper.world.join(self.scene.guild["id"], self.helper.world.bot)["joined_at"] = LONG_AGO


@pytest.fixture
def bots(scene: Scene) -> Bots:
    helper = scene.discord.add_bot("Helper")
    scene.own = replace(scene.own, token=SecretStr(f"{scene.discord.token}, {helper.token}"))
    return Bots(scene, helper, scene.ann.towards(helper))


async def test_each_bot_answers_on_its_servers_and_in_its_direct_messages(
    bots: Bots, address: Address, model: OpenAIStub
) -> None:
    scene, elsewhere = bots.scene, bots.add_server()
    model.play(lambda _body, _number: Answer("Here."))
    async with bots.opened(address, model):
        await scene.ann.asks("first?", scene.general)
        await bots.ann.asks("second?", elsewhere)
        await scene.ann.says("first?", scene.ann.dm())
        await bots.ann.says("second?", bots.ann.dm())

        for person, channel in (
            (scene.ann, scene.general),
            (bots.ann, elsewhere),
            (scene.ann, scene.ann.dm()),
            (bots.ann, bots.ann.dm()),
        ):
            assert await person.hears(channel) == ["Here."]
        # Two sessions, neither of which waited for the other one's token.
        assert await scene.value("SELECT count(DISTINCT bot_id) FROM shards WHERE holder IS NOT NULL") == 2
        helper = f"discord:{bots.helper.bot_user_id}"
        assert await scene.sql("SELECT adapter, count(*) FROM outbox GROUP BY adapter ORDER BY adapter") == [
            ("discord", 2),
            (helper, 2),
        ]
        assert await scene.value("SELECT count(DISTINCT user_id) FROM turns") == 1
    assert scene.discord.gateway.refusals == 0


async def test_of_two_bots_on_a_server_the_one_that_is_mentioned_answers(
    bots: Bots, address: Address, model: OpenAIStub
) -> None:
    scene = bots.scene
    bots.join()
    model.play(lambda body, _number: Answer(f"{len(body['messages'])} messages."))
    async with bots.opened(address, model):
        await scene.ann.asks("to the first", scene.general)
        await scene.ann.hears(scene.general)
        await bots.ann.asks("to the second", scene.general)
        await bots.ann.hears(scene.general)
        # A reply calls its author, and who mentions both is answered once.
        await bots.ann.says("and you?", scene.general, reply_to=bots.ann.reads(scene.general)[0])
        await bots.ann.hears(scene.general, 2)
        await bots.ann.asks(f"<@{scene.discord.bot_user_id}> both", scene.general)
        await scene.until_value(4, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

        assert len(scene.ann.reads(scene.general)) + len(bots.ann.reads(scene.general)) == 4
        assert len(scene.ann.reads(scene.general)) <= 2
        # They are one agent: the second one knows what was said to the first, and quotes none of its answers.
        assert "to the first" in str(model.requests[1].body["messages"])
        assert "1 messages" not in scene.prompt(1)


@pytest.mark.parametrize("answers_others", [True, False])
async def test_in_a_channel_where_each_message_is_answered_another_bots_are_left_to_it(
    bots: Bots, address: Address, model: OpenAIStub, answers_others: bool
) -> None:
    scene = bots.scene
    bots.join()
    model.play(lambda _body, _number: Answer("Here."))
    async with bots.opened(address, model):
        insert = (
            "INSERT INTO channel_modes (platform_channel_id, mode, answers_others) VALUES (:channel, 'always', :others)"
        )
        await scene.sql(insert, channel=scene.general["id"], others=answers_others)
        for number in range(1, 4):
            await bots.ann.asks("you", scene.general)
            await bots.ann.hears(scene.general, number)
        await scene.ann.says("anybody", scene.general)
        await scene.until_value(4, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

        # What is said to nobody has one answer, too.
        assert len(scene.ann.reads(scene.general)) + len(bots.ann.reads(scene.general)) == 4


async def test_in_a_thread_the_bot_that_was_called_last_goes_on(
    bots: Bots, address: Address, model: OpenAIStub
) -> None:
    scene = bots.scene
    bots.join()
    thread = scene.discord.world.add_thread(scene.general, "Boats", scene.ann.id)
    model.play(lambda _body, _number: Answer("Here."))
    async with bots.opened(address, model):
        for person, other in ((scene.ann, bots.ann), (bots.ann, scene.ann)):
            before = len(other.reads(thread))
            await person.asks("you", thread)
            await person.hears(thread)
            for number in range(2, 5):
                await person.says("go on", thread)
                await person.hears(thread, number)
            assert len(other.reads(thread)) == before
        # A program that writes there by the API is no bot that could go on.
        await scene.sql("UPDATE conversations SET adapter = 'http'")
        await scene.ann.says("and now", thread)
        await scene.until_value(9, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
        assert len(scene.ann.reads(thread)) + len(bots.ann.reads(thread)) == 9


async def test_commands_forms_and_reminders_are_those_of_the_bot_that_got_them(
    bots: Bots, address: Address, model: OpenAIStub
) -> None:
    scene, elsewhere = bots.scene, bots.add_server()
    model.play(lambda _body, _number: Answer("Here."))
    async with bots.opened(address, model):
        await scene.discord.until(lambda: scene.discord.commands and bots.helper.commands)
        await scene.discord.gateway.until(2)
        asked = await bots.ann.types("ask", elsewhere, question="who?")
        assert await asked.answered() == "Here."
        assert "permission guest" in await (await bots.ann.types("me", elsewhere)).answered()
        await scene.sql("UPDATE users SET permission_level = 'user'")
        await bots.ann.says("/schedule add every Monday at 10: stand-up", bots.ann.dm())
        assert (await bots.ann.hears(bots.ann.dm()))[0].startswith("Scheduled")
        assert await scene.value("SELECT adapter FROM scheduled_jobs") == f"discord:{bots.helper.bot_user_id}"
        await scene.sql("UPDATE scheduled_jobs SET next_due_at = now()")

        assert "stand-up" in (await bots.ann.hears(bots.ann.dm(), 2))[1]
        link = await (await bots.ann.types("login", bots.ann.dm())).answered()
        assert "opens my page as you" in link


async def test_an_edit_of_what_one_bot_answered_changes_the_buttons_once(
    bots: Bots, address: Address, model: OpenAIStub
) -> None:
    scene = bots.scene
    bots.join()
    model.play(lambda _body, _number: Answer("Here."))
    async with bots.opened(address, model):
        message = await bots.ann.asks("first", scene.general)
        await bots.ann.hears(scene.general)
        await scene.until_value("delivered", "SELECT status FROM outbox")
        await bots.ann.edits(message, f"<@{bots.helper.bot_user_id}> second")
        await scene.discord.until(lambda: "edited" in str(bots.ann.reads(scene.general)[0]["components"]))
        interaction = await bots.ann.clicks(bots.ann.reads(scene.general)[0], "Answer the edited message")
        await interaction.acked()
        await bots.ann.hears(scene.general, 2)
    assert scene.discord.refusals == []


async def test_one_revoked_token_of_two_leaves_the_other_bot_at_work_and_is_named(
    bots: Bots, address: Address, model: OpenAIStub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, helper = bots.scene, f"discord:{bots.helper.bot_user_id}"
    model.play(lambda _body, _number: Answer("Here."))
    async with bots.opened(address, model):
        await bots.helper.revoke()
        result = ""
        async with asyncio.timeout(60):
            while "platform_refuses" not in result or helper not in result:
                await asyncio.sleep(0.05)
                result += capsys.readouterr().out
        await scene.ann.asks("still there?", scene.general)
        assert await scene.ann.hears(scene.general) == ["Here."]

        shell = Shell(tmp_path, child_environment(scene.settings, address, tmp_path) | scene.discord.environment())
        tokens = scene.own.token.get_secret_value() if scene.own.token else ""
        report = await asyncio.to_thread(shell.run, "doctor", DISCORD_TOKEN=tokens)
        wrong = await asyncio.to_thread(shell.run, "doctor", DISCORD_TOKEN=f"{tokens},nonsense")
    lines = [line.split(maxsplit=2) for line in report.lines if "discord" in line.split()[1]]
    assert {level for level, adapter, _ in lines if adapter == "discord"} == {"ok"}
    assert [line for line in lines if line[1] != "discord"] == [["fail", helper, REFUSED]]
    # The others are looked at all the same.
    assert "number 3 of its tokens is none of Discord's" in wrong.out
    assert "sandbox" in wrong.out


async def test_a_reply_of_a_bot_that_is_gone_holds_up_no_other_bot_in_its_channel(
    bots: Bots, address: Address, model: OpenAIStub
) -> None:
    scene = bots.scene
    model.play(lambda _body, _number: Answer("Here."))
    async with bots.opened(address, model):
        await scene.ann.asks("first", scene.general)
        await scene.until_value("delivered", "SELECT status FROM outbox")
        await scene.sql(
            "INSERT INTO outbox (adapter, platform, platform_server_id, platform_channel_id, place_key, content)"
            " SELECT 'discord:1', platform, platform_server_id, platform_channel_id, place_key, 'Late.' FROM outbox"
        )
        await scene.ann.asks("second", scene.general)

        assert await scene.ann.hears(scene.general, 2) == ["Here.", "Here."]
        # One that waits is claimed past it, too.
        await scene.sql("UPDATE outbox SET status = 'pending' WHERE content = 'Here.'")
        await scene.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")


async def test_an_edit_is_stored_as_the_bot_reads_it_that_was_called(
    bots: Bots, address: Address, model: OpenAIStub
) -> None:
    scene = bots.scene
    bots.join()
    model.play(lambda _body, _number: Answer("Here."))
    async with bots.opened(address, model):
        message = await scene.ann.asks("first", scene.general)
        await scene.ann.hears(scene.general)
        for _ in range(2):
            # The second time nothing is new, as when Discord shows what is behind a link.
            await scene.ann.edits(message, f"<@{scene.discord.bot_user_id}> second")
        for number, person in ((2, scene.ann), (1, bots.ann)):
            await person.asks("and?", scene.general)
            await person.hears(scene.general, number)

        assert (
            await scene.value("SELECT content FROM inbox WHERE platform_event_id = :id", id=message["id"]) == "second"
        )


async def test_the_bot_that_is_left_goes_on_in_its_threads_and_with_what_it_had_to_say(
    bots: Bots, address: Address, model: OpenAIStub
) -> None:
    scene = bots.scene
    bots.join()
    thread = scene.discord.world.add_thread(scene.general, "Boats", scene.ann.id)
    model.play(lambda _body, _number: Answer("Here."))
    async with bots.opened(address, model):
        await bots.ann.asks("you", thread)
        await bots.ann.hears(thread)
        await scene.until_value("delivered", "SELECT status FROM outbox")
    scene.own = replace(scene.own, token=SecretStr(bots.helper.token))
    async with bots.opened(address, model):
        await bots.ann.says("go on", thread)
        await bots.ann.hears(thread, 2)
        # What is still to be said as which it was before.
        await scene.sql(
            "INSERT INTO outbox (adapter, platform, platform_server_id, platform_channel_id, place_key, content)"
            " SELECT adapter, platform, platform_server_id, platform_channel_id, 'k', 'Late.' FROM outbox"
            " WHERE adapter <> 'discord'"
        )
        assert await bots.ann.hears(scene.general) == ["Late."]


@pytest.mark.timeout(300)
async def test_a_killed_process_leaves_the_shards_of_all_bots_to_the_other_one_which_loses_and_repeats_nothing(
    bots: Bots, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    scene, elsewhere = bots.scene, bots.add_server()
    model.play(lambda _body, _number: Answer("Here."))
    env = child_environment(scene.settings, address, tmp_path) | scene.discord.environment()
    env["DISCORD_TOKEN"] = f"{scene.discord.token},{bots.helper.token}"
    async with bots.opened(address, model, listens=False), AsyncExitStack() as stack:
        command = (*get_command(), "adapter", "discord")
        first = await stack.enter_async_context(running_child(*command, env=env))
        await scene.discord.gateway.until(2)
        await scene.until_value(2, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")
        await stack.enter_async_context(running_child(*command, env=env))
        await scene.until_value(2, "SELECT min(count) FROM (SELECT count(*) FROM listeners GROUP BY bot_id) AS each")
        first.kill()
        await first.wait()
        await scene.ann.asks("meanwhile?", scene.general)
        await bots.ann.asks("meanwhile?", elsewhere)

        assert await scene.ann.hears(scene.general) == ["Here."]
        assert await bots.ann.hears(elsewhere) == ["Here."]
        await bots.ann.says("after?", bots.ann.dm())
        assert await bots.ann.hears(bots.ann.dm()) == ["Here."]
        assert await scene.value("SELECT count(*) FROM inbox WHERE content <> ''") == 3
    # Each bot's sessions at a pace of its own.
    assert scene.discord.gateway.refusals == 0


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ("{first},nonsense", "number 2 of its tokens is none of Discord's"),
        ("{first},{first}.again", "two of its tokens are of the bot"),
        ("{first}\n{first}.again", "it takes tokens with commas between them"),
        (" , ", "it takes tokens with commas between them"),
    ],
)
def test_a_wrong_list_of_tokens_is_refused_with_a_sentence(scene: Scene, tokens: str, reason: str) -> None:
    own = replace(scene.own, token=SecretStr(tokens.format(first=scene.discord.token)))

    with pytest.raises(ConfigurationError, match=reason):
        DiscordPlatform(own)
