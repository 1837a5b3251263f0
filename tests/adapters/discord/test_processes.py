"""One process listens, others answer: real programs, one of which is killed in the middle of an answer."""

import sys
from pathlib import Path

from shared.db.database import Address
from tests.adapters.discord.conftest import Scene
from tests.bench.children import started
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.given_database import connect

COMMAND = (sys.executable, "-m", "adapters.cli")


def environment(scene: Scene, address: Address, home: Path) -> dict[str, str]:
    """Return the settings that all processes share."""
    settings = scene.settings
    return {
        "PARLEY_HOME": str(home),
        "DATABASE_URL": address.libpq(as_owner=True),
        "LLM_MODELS": "openai/stub",
        "OPENAI_BASE_URL": settings.openai_base_url or "",
        "OPENAI_API_KEY": "sk-test",
        "DISCORD_TOKEN": scene.discord.token,
        "DISCORD_API_BASE": scene.discord.api_base,
        "DISCORD_GATEWAY": scene.discord.gateway.url,
        "DISCORD_CDN_BASE": scene.discord.cdn_base,
        "SECRET_KEY": "shared",
    }


async def test_an_answer_goes_on_in_the_same_message_when_its_worker_is_killed(
    scene: Scene, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    env = environment(scene, address, tmp_path)
    model.play([Answer("One two three four five six seven.", chunk_chars=4, chunk_delay=2.0), Answer("All seven.")])
    dm = scene.ann.dm()
    async with started(*COMMAND, "adapter", "discord", env=env), started(*COMMAND, "worker", env=env) as first:
        await scene.discord.gateway.until()
        await scene.ann.says("count", dm)
        (live,) = await scene.discord.until(lambda: scene.ann.reads(dm), 100)
        owner = await connect(address)
        while await owner.fetchval("SELECT live_message_id FROM turns") is None:
            await owner.execute("SELECT pg_sleep(0.05)")
        first.kill()
        await first.wait()
        await owner.execute("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
        await owner.close()
        async with started(*COMMAND, "worker", env=env):
            await scene.discord.until(lambda: live["content"] == "All seven.", 100)
    assert [each["id"] for each in scene.ann.reads(dm)] == [live["id"]]
