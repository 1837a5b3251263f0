"""Platforms are away for 90 seconds, or OUTAGE_SECONDS: every answer arrives once, and in the order of its place."""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.discord.conftest import make_scene as make_discord
from tests.adapters.matrix.conftest import made_scene as make_matrix
from tests.adapters.slack.conftest import make_scene as make_slack
from tests.bench.children import cpu_seconds, running_child
from tests.standins.discord import DiscordStandIn, Fault
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import SlackStandIn
from tests.support.chat_scene import COMMAND, child_environment
from tests.support.homeserver_proxy import CUT, SENDING, SILENCE
from tests.support.homeserver_proxy import Fault as HomeserverFault
from tests.support.shared import Shared

QUESTIONS, AWAY_SECONDS = 6, float(os.environ.get("OUTAGE_SECONDS", "90"))
pytestmark = [pytest.mark.soak, pytest.mark.timeout(AWAY_SECONDS + 900)]
# Of a processor, what listens and what sends may use together; how often they ask (the HTTP library asks twice where a
# connection breaks) and how many lines they log, when the platform goes and in each second after it.
MOST_LOAD, MOST_AT_ONCE, MOST_LATER = 0.1, 150, 0.75
ANSWERED = "SELECT count(*) FROM inbox WHERE status = 'answered'"
OPEN = "SELECT count(*) FROM outbox WHERE status IN ('pending', 'claimed')"

logger = logging.getLogger(__name__)


async def test_every_answer_of_an_outage_of_discord_and_slack_arrives_once_and_in_order(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, number: Answer(f"Answer {number:03}."))
    async with DiscordStandIn() as discord, SlackStandIn() as slack, AsyncExitStack() as stack:
        server, office = make_discord(discord, settings), make_slack(slack, settings)
        env = child_environment(settings, address, tmp_path) | discord.environment() | slack.environment()
        env["DEFAULT_GUEST_TOKEN_BUDGET"] = "1000000000"
        await stack.enter_async_context(server.opened(address, model, works=False))
        await stack.enter_async_context(office.opened(address, model, works=False))
        for _ in range(2):
            await stack.enter_async_context(running_child(*COMMAND, "worker", env=env))
        away = Fault("POST", "/messages", 503, times=1_000_000)
        discord.faults.append(away)
        refusal: Any = slack.fail("chat.postMessage", status=503, times=1_000_000)
        people = (server.ann, server.bob)
        for number in range(QUESTIONS):
            for person in people:
                await person.says(f"question {number}", person.dm())
            await office.ann.mentions(office.general, f"question {number}")
            # What one person writes while a turn runs would become one turn.
            await server.until_value(3 * (number + 1), ANSWERED)
        await asyncio.sleep(AWAY_SECONDS)
        assert await server.value(OPEN) == 3 * QUESTIONS
        away.times = refusal.times = 0

        async with asyncio.timeout(120):
            while await server.value(OPEN):
                await server.sql("SELECT pg_sleep(0.5)")
        assert await server.value("SELECT count(*) FROM outbox WHERE status = 'delivered'") == 3 * QUESTIONS
        for person in people:
            heard = await person.hears(person.dm(), QUESTIONS)
            assert heard == sorted(heard)
            assert len(set(heard)) == QUESTIONS
        assert len(office.ann.written(office.general)) == QUESTIONS


async def test_an_outage_of_a_homeserver_loses_nothing_that_was_asked_before_or_meanwhile(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    model.play(lambda _body, number: Answer(f"Answer {number:03}."))
    log = tmp_path / "log"
    async with Shared() as shared, make_matrix(shared, settings) as scene, AsyncExitStack() as stack:
        ann, agent, direct, proxy = scene.ann, scene.agent.id, scene.direct, scene.proxy
        env = child_environment(settings, address, tmp_path) | scene.environment()
        env |= {"DEFAULT_GUEST_TOKEN_BUDGET": "1000000000", "SECRET_KEY": str(tmp_path)}
        await stack.enter_async_context(scene.opened(address, model, listens=False, works=False))
        children = [
            await stack.enter_async_context(running_child(*COMMAND, *command, env=env, errors=log))
            for command in (("adapter", "matrix"), ("worker",))
        ]
        await scene.connections.until()
        # The homeserver has the answer, and nobody is told of that.
        proxy.faults.append(HomeserverFault("PUT", SENDING, SILENCE, after=True))
        await ann.says(direct, "asked before")
        await proxy.until_silent()
        proxy.go_away()
        cpu = [cpu_seconds(child.pid) for child in children]
        for number in range(QUESTIONS):
            await ann.says(direct, f"meanwhile {number}")
            await asyncio.sleep(AWAY_SECONDS / QUESTIONS)
        spent = [cpu_seconds(child.pid) - past for child, past in zip(children, cpu, strict=True)]
        requests, lines = sum(call.status == CUT for call in proxy.journal), len(log.read_text().splitlines())
        logger.info("seconds of processor %s, requests %s, lines %s", spent, requests, lines)
        assert sum(spent) < MOST_LOAD * AWAY_SECONDS
        assert requests + lines < MOST_AT_ONCE + MOST_LATER * AWAY_SECONDS
        assert await scene.value(OPEN) == 1
        # As a homeserver does after half an hour.
        proxy.forget_transactions()
        proxy.is_away = False

        await scene.until_value(QUESTIONS + 1, ANSWERED)
        await scene.until_value(0, OPEN)
        await ann.sees(lambda: len(ann.texts(agent, direct)) >= 2)
        # Before an answer that comes late stands that it does.
        heard = [text.splitlines()[-1] for text in ann.texts(agent, direct)]
        assert heard == sorted(set(heard))
        assert [row.content for row in await scene.sql("SELECT content FROM inbox ORDER BY id")] == [
            "asked before",
            *(f"meanwhile {number}" for number in range(QUESTIONS)),
        ]
