"""One process listens, others answer: real programs, one of which is killed in the middle of an answer."""

import sys
from pathlib import Path

from shared.db.database import Address
from tests.adapters.slack.conftest import Scene
from tests.bench.children import started
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.given_database import connect

COMMAND = (sys.executable, "-m", "adapters.cli")


def environment(scene: Scene, address: Address, home: Path) -> dict[str, str]:
    """Return the settings that all processes share."""
    return {
        "PARLEY_HOME": str(home),
        "DATABASE_URL": address.libpq(as_owner=True),
        "LLM_MODELS": "openai/stub",
        "OPENAI_BASE_URL": scene.settings.openai_base_url or "",
        "OPENAI_API_KEY": "sk-test",
        "SLACK_BOT_TOKEN": scene.slack.bot_token,
        "SLACK_APP_TOKEN": scene.slack.app_token,
        "SLACK_API_BASE": scene.slack.api_base,
        "SECRET_KEY": "shared",
    }


async def test_a_stream_that_a_killed_worker_has_left_open_is_the_message_of_the_answer(
    scene: Scene, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    env = environment(scene, address, tmp_path)
    model.play([Answer("One two three four five six seven.", chunk_chars=4, chunk_delay=2.0), Answer("All seven.")])
    async with started(*COMMAND, "adapter", "slack", env=env), started(*COMMAND, "worker", env=env) as first:
        await scene.slack.socket.until()
        asked = await scene.ann.mentions(scene.general, "count")
        (start,) = await scene.slack.until(lambda: scene.slack.calls("chat.startStream"), 100)
        owner = await connect(address)
        while await owner.fetchval("SELECT live_message_id FROM turns") is None:
            await owner.execute("SELECT pg_sleep(0.05)")
        first.kill()
        await first.wait()
        await owner.execute("UPDATE procrastinate_workers SET last_heartbeat = now() - interval '1 hour'")
        await owner.close()
        async with started(*COMMAND, "worker", env=env):
            said = await scene.slack.until_message(scene.general, "All seven.", 100)
    assert said["ts"] == start.answer["ts"]
    assert scene.ann.reads(scene.general, asked["ts"]) == ["All seven."]
