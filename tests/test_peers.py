"""Agents at a URL, called with the same tool: their request, and their failures."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from agent.agents.delegation.peers import Asker, PeerAnswer
from agent.agents.delegation.provider import AgentTools
from shared.db.database import Address
from shared.errors import ToolError, Unavailable
from shared.models import Agent
from shared.settings import Settings
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import ScriptedCall
from tests.support.delegating import add_agent, ask, play, until
from tests.support.parley import Parley
from tests.support.recovery import open_parley_with

DELEGATE = "agents__delegate"
LOOK: ScriptedCall = ("knowledge__list_memories", {})


pytestmark = pytest.mark.settings(default_guest_token_budget=100_000)


@dataclass
class FakePeers:
    """Agents of other installations, scripted by the test."""

    answer: Callable[[str], Any]
    asked: list[tuple[str, str, tuple[str, ...], str]] = field(default_factory=list)
    cancelled: int = 0

    async def ask(
        self, agent: Agent, task: str, *, seconds: float, hops: tuple[str, ...], context_id: str, asker: Asker
    ) -> PeerAnswer:
        """Record the request and answer."""
        self.asked.append((str(agent.url), task, hops, context_id))
        assert 0 < seconds <= 180
        answer = self.answer(task)
        try:
            return PeerAnswer(answer) if isinstance(answer, str) else await answer
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def add_peer(parley: Parley, name: str = "abroad") -> None:
    await parley.sql(
        "INSERT INTO agents (name, description, url) VALUES (:name, 'Far away.', 'https://far.example/a2a')", name=name
    )


@pytest.fixture
async def far(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[tuple[Parley, FakePeers]]:
    """An installation with one agent at a URL."""
    peers = FakePeers(lambda _task: "From afar.")
    async with open_parley_with(settings, address, model, agents=partial(AgentTools, peers=peers)) as parley:
        await add_peer(parley)
        yield parley, peers


async def test_an_agent_at_a_url_is_asked_by_the_same_tool(far: tuple[Parley, FakePeers]) -> None:
    parley, peers = far
    await add_agent(parley, "scout")
    play(
        parley.model,
        asker=[Answer(tool_calls=[ask("abroad", "Hello?"), ask("scout")]), "Done."],
        scout=[Answer(tool_calls=[ask("abroad", "And here?")]), "Found."],
    )

    reply = await parley.ask("ask everybody")

    assert [call.result for call in reply.tool_calls_made] == [
        {"result": "From afar.", "agent": "abroad", "iterations": 0},
        {"result": "Found.", "agent": "scout", "iterations": 2},
    ]
    url = "https://far.example/a2a"
    below = await parley.value("SELECT id FROM turns WHERE agent = 'scout'")
    assert peers.asked == [
        (url, "Hello?", (), "call_1_2"),
        (url, "And here?", ("scout",), f"call_{below}_2"),
    ]
    rows = await parley.sql(
        "SELECT role, content FROM messages JOIN turns ON turns.id = turn_id"
        " WHERE agent = 'abroad' AND parent_turn_id = 1 ORDER BY seq"
    )
    assert [tuple(row) for row in rows] == [("user", "Hello?"), ("assistant", "From afar.")]


@pytest.mark.parametrize(
    ("fails", "reason", "words"),
    [
        (Unavailable("The agent abroad can't be reached."), "unavailable", "can't be reached"),
        (ToolError("I only speak French."), "tool_error", "I only speak French."),
        (ConnectionResetError("cut"), None, "failed unexpectedly"),
        (TimeoutError(), "deadline", "longer than I am allowed"),
    ],
    ids=["unreachable", "says no", "breaks off", "time-out"],
)
async def test_an_agent_at_a_url_that_fails_is_an_error_result(
    far: tuple[Parley, FakePeers], fails: Exception, reason: str | None, words: str
) -> None:
    parley, peers = far

    async def fail() -> PeerAnswer:
        raise fails

    peers.answer = lambda _task: fail()
    play(parley.model, asker=[Answer(tool_calls=[ask("abroad")]), "Sorry."])

    reply = await parley.ask("ask abroad")

    result = reply.tool_calls_made[0].result
    assert (result["error"], result.get("reason")) == (True, reason)
    assert words in result["message"]
    assert (reply.content, reply.error) == ("Sorry.", None)
    await until(parley, "SELECT count(*) FROM turns WHERE status = 'running'", 0)


async def test_an_agent_at_a_url_that_hangs_times_out_early_enough_to_answer(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    settings = settings.model_copy(update={"turn_deadline_seconds": 8})
    peers = FakePeers(lambda _task: asyncio.sleep(600))
    async with open_parley_with(settings, address, model, agents=partial(AgentTools, peers=peers)) as parley:
        play(model, asker=["Hi.", Answer(tool_calls=[ask("abroad")]), "Nobody answers."])
        await parley.ask("hello")
        await add_peer(parley)

        reply = await parley.ask("ask abroad")

        assert reply.tool_calls_made[0].result["reason"] == "deadline"
        assert (reply.content, peers.cancelled) == ("Nobody answers.", 1)
