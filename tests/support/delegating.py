"""Support for tests of agents: adding agents as an admin does, and a model scripted for each of them."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from tests.standins.openai_api import Answer, OpenAIStub, Reply
from tests.standins.openai_api.script import Body
from tests.support.parley import Parley

ASKER = "asker"
Part = Sequence[Reply | str] | Callable[[Body, int], Reply | Awaitable[Reply]]


async def add_agent(
    parley: Parley,
    name: str,
    *,
    requires: str = "guest",
    modules: str | None = None,
    max_iterations: int | None = None,
    max_tokens: int | None = None,
    model: str | None = None,
) -> None:
    """Add an agent with its own persona, whose prompt contains its name."""
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, allowed_modules, max_iterations, max_tokens_per_request,"
        " default_model) VALUES (:name, :prompt, CAST(:modules AS jsonb), :iterations, :tokens, :model)",
        name=name,
        prompt=f"You are {name}.",
        modules=modules,
        iterations=max_iterations,
        tokens=max_tokens,
        model=model,
    )
    await parley.sql(
        "INSERT INTO agents (name, description, required_permission, persona_id)"
        " SELECT name, 'Knows about ' || name || ' things.', :requires, id FROM personas WHERE name = :name",
        name=name,
        requires=requires,
    )


async def until(parley: Parley, query: str, value: Any) -> None:
    """Wait until a query returns this value."""
    async with asyncio.timeout(30):
        while True:
            if await parley.value(query) == value:
                break
            await asyncio.sleep(0.05)


async def events_of(parley: Parley, turn_id: int) -> list[tuple[str, dict[str, Any]]]:
    rows = await parley.sql("SELECT name, payload FROM turn_events WHERE turn_id = :id ORDER BY seq", id=turn_id)
    return [(row.name, row.payload) for row in rows]


def play(model: OpenAIStub, **parts: Part) -> None:
    """Script the model for each agent separately; `asker` answers the person."""
    spoken: dict[str, int] = defaultdict(int)

    def answer(body: Body, number: int) -> Reply | Awaitable[Reply]:
        name = who_is(body)
        part = parts[name]
        if callable(part):
            return part(body, number)
        spoken[name] += 1
        reply = part[spoken[name] - 1]
        return Answer(reply) if isinstance(reply, str) else reply

    model.play(answer)


def who_is(body: Body) -> str:
    """Return the agent that a request is made for."""
    prompt = str(body["messages"][0]["content"])
    return prompt.removeprefix("You are ").partition(".")[0] if "handed you this task" in prompt else ASKER


def ask(agent: str, task: str = "Find out.") -> tuple[str, dict[str, Any]]:
    """Return a call that delegates a task to an agent."""
    return "agents__delegate", {"agent": agent, "task": task}


def requests_of(parley: Parley, name: str) -> list[Body]:
    """Return the model's requests for this agent."""
    return [request.body for request in parley.model.requests if who_is(request.body) == name]


def tools_of(body: Body) -> list[str]:
    """Return the names of the tools of a request."""
    return [tool["function"]["name"] for tool in body.get("tools", ())]


def result_of(body: Body, number: int = -1) -> str:
    """Return a tool result that a request shows."""
    return str([message["content"] for message in body["messages"] if message["role"] == "tool"][number])
