"""A channel that takes one message a second gets 60 answers from two worker processes, with few refused calls."""

from pathlib import Path

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.slack.conftest import make_scene
from tests.bench.children import running_child
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import Limits, SlackStandIn
from tests.support.chat_scene import COMMAND, child_environment

pytestmark = pytest.mark.soak
MENTIONS, MOST_CALLS = 60, 1.2
DELIVERED = "SELECT count(*) FROM outbox WHERE status = 'delivered'"


async def test_sixty_mentions_in_a_limited_channel_cost_few_calls_more_with_two_workers(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, _number: Answer("Hello."))
    async with SlackStandIn(limits=Limits(posts=1, post_seconds=1.0)) as slack:
        scene = make_scene(slack, settings)
        env = child_environment(settings, address, tmp_path) | slack.environment()
        env["DEFAULT_GUEST_TOKEN_BUDGET"] = "1000000000"
        async with (
            scene.opened(address, model, works=False),
            running_child(*COMMAND, "worker", env=env),
            running_child(*COMMAND, "worker", env=env),
        ):
            for number in range(MENTIONS):
                await scene.ann.mentions(scene.general, f"question {number}")
            while await scene.value(DELIVERED) < MENTIONS:
                await scene.sql("SELECT pg_sleep(0.5)")

        assert len(scene.ann.written(scene.general)) == MENTIONS
        assert len(slack.calls("chat.postMessage")) <= MOST_CALLS * MENTIONS
