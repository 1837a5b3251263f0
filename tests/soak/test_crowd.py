"""A hundred thousand messages wait in one channel, and two workers answer everybody else meanwhile."""

from pathlib import Path

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.agent.queue.test_crowds import store
from tests.bench.children import running_child
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.chat_scene import COMMAND, child_environment
from tests.support.parley import open_parley

pytestmark = pytest.mark.soak
OTHERS = 200
CROWD = "SELECT count(*) FROM inbox WHERE content = 'crowd' AND status = 'answered'"


async def test_a_hundred_thousand_messages_in_one_channel_starve_nobody(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, _number: Answer("heard"))
    env = child_environment(settings, address, tmp_path) | {"DEFAULT_GUEST_TOKEN_BUDGET": "1000000000"}
    async with open_parley(settings, address, model, works=False) as parley:
        await store(parley, 100_000)
        async with running_child(*COMMAND, "worker", env=env), running_child(*COMMAND, "worker", env=env):
            for number in range(OTHERS):
                reply = await parley.ask("hello", user=f"ann-{number}", server=f"other-{number % 20}")
                assert reply.content == "heard"
        # The crowd has its turns, too: one at a time, as its place wants.
        assert await parley.value(CROWD) > OTHERS / 10
