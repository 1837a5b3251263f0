"""A process that has no way to Discord's gateway: its shards go to one that has, within a minute and a half."""

from pathlib import Path

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.discord.conftest import BETWEEN_STARTS, make_scene
from tests.bench.children import running_child
from tests.standins.discord import DiscordStandIn
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import COMMAND, child_environment
from tests.support.loopback import free_port

OF_A_PROCESS = "SELECT count(*) FROM shards WHERE split_part(holder, ':', 2) = :pid"
pytestmark = [pytest.mark.soak, pytest.mark.settings(default_guest_token_budget=1_000_000)]


async def test_a_shard_does_not_stay_where_its_gateway_can_not_be_reached(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play([Answer("I hear you.")])
    async with DiscordStandIn() as discord:
        discord.gateway.identify_seconds = BETWEEN_STARTS
        scene = make_scene(discord, settings)
        deaf = child_environment(settings, address, tmp_path) | discord.environment()
        deaf |= {"DISCORD_GATEWAY": f"ws://127.0.0.1:{free_port()}"}
        async with (
            scene.opened(address, model, listens=False),
            running_child(*COMMAND, "adapter", "discord", env=deaf, errors=tmp_path / "log"),
        ):
            await scene.until_value(1, "SELECT count(*) FROM shards WHERE holder IS NOT NULL")
            env = deaf | {"DISCORD_GATEWAY": discord.gateway.url}
            async with running_child(*COMMAND, "adapter", "discord", env=env, errors=tmp_path / "other log") as other:
                await scene.until_value(1, OF_A_PROCESS, pid=str(other.pid))
                await discord.gateway.until()
                await scene.ann.says("can you hear me?", scene.ann.dm())
                assert await scene.ann.hears(scene.ann.dm()) == ["I hear you."]
