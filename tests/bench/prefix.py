"""How much of a prompt a provider could find in its cache: the prefix shared with the request before.

It runs in the benchmark's own process, where the clock can be advanced as in a conversation of twenty minutes.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from msgspec.structs import replace
from pydantic import SecretStr
from sqlalchemy import text

from adapters.cli.compose import open_app
from adapters.cli.worker import build_worker
from agent.app import App
from shared.clock import SystemClock
from shared.db.database import Address
from shared.log import configure_logging
from shared.messages import IncomingMessage, Place, Sender
from shared.settings import Settings
from tests.bench.model import TOOL
from tests.standins.openai_api import Answer, OpenAIStub

TURNS = 20
# Long enough for the history's window to move within the twenty turns.
ASKED = "That leads me to my next question, which is number {number}: what would you say about it, and why? " * 2
ANSWERED = "To question number {number} I would say that it depends, and on more than one thing at that. " * 8
TURN_SECONDS = 60


class MovingClock(SystemClock):
    """The machine's clock, which can be advanced."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        """Return the time plus the advance."""
        return super().now() + self.ahead


@dataclass(frozen=True, slots=True)
class Shares:
    """Shared prefixes over the turns of a conversation, and within the requests of one turn."""

    over_turns: float
    within_turn: float


def prompt(body: dict[str, Any]) -> str:
    """Return a request as a model reads it: tools first, then messages."""
    return json.dumps(body.get("tools", [])) + json.dumps(body["messages"])


def same_beginning(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    different = (place for place, (first, right) in enumerate(zip(one, other, strict=False)) if first != right)
    return next(different, min(len(one), len(other)))


def share_of_new(prompts: Sequence[str]) -> float:
    """Return the share of all prompts except the first that is a prefix of the one before."""
    pairs = list(pairwise(prompts))
    return sum(same_beginning(*pair) for pair in pairs) / sum(len(after) for _, after in pairs)


def share_kept(prompts: Sequence[str]) -> float:
    """Return the share of all prompts except the last that the next one begins with; tool results are new."""
    pairs = list(pairwise(prompts))
    return sum(same_beginning(*pair) for pair in pairs) / sum(len(before) for before, _ in pairs)


@asynccontextmanager
async def working(app: App) -> AsyncIterator[App]:
    """Run a worker in this block; yields the app."""
    task = asyncio.create_task(build_worker(app).run(), name="worker of the bench")
    try:
        yield app
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def measure(home: Path, address: Address) -> Shares:
    """Hold one conversation with a minute between the messages, then one turn with two waves of tools."""
    configure_logging("WARNING", "console")
    async with OpenAIStub() as model:
        settings = Settings(
            parley_home=home,
            llm_models=("openai/bench",),
            openai_base_url=model.base_url,
            openai_api_key=SecretStr("bench"),
        )
        async with open_app(settings, address) as base, working(replace(base, clock=MovingClock())) as app:
            await _remember(app)
            over_turns = share_of_new(await _over_turns(app, model))
            return Shares(over_turns, share_kept(await _within_a_turn(app, model)))


async def _over_turns(app: App, model: OpenAIStub) -> list[str]:
    model.requests.clear()
    for number in range(TURNS):
        model.play([Answer(ANSWERED.format(number=number))])
        cast(MovingClock, app.clock).ahead += timedelta(minutes=1)
        await _say(app, "twenty-turns", ASKED.format(number=number))
    return [prompt(request.body) for request in model.requests]


async def _within_a_turn(app: App, model: OpenAIStub) -> list[str]:
    model.requests.clear()
    model.play([Answer("", [(TOOL, {})]), Answer("", [(TOOL, {"skip": 1})]), Answer("So I see.")])
    await _say(app, "twenty-turns", ASKED.format(number=TURNS))
    return [prompt(request.body) for request in model.requests]


async def _remember(app: App) -> None:
    await _say(app, "elsewhere", "hello")
    async with app.database.transaction() as session:
        query = text("SELECT user_id FROM user_platform_links WHERE platform_user_id = 'prefix'")
        user_id = (await session.execute(query)).scalar_one()
        await session.execute(text("UPDATE users SET token_budget_monthly = NULL WHERE id = :id"), {"id": user_id})
    memory = app.memory.of_user(user_id, _place("twenty-turns"), None)
    for number in range(10):
        await memory.remember(f"I like to be asked question number {number} before the others.")


def _place(thread: str) -> Place:
    return Place(platform="bench", server=None, channel="prefix", thread=thread, is_direct=True)


async def _say(app: App, thread: str, content: str) -> None:
    message = IncomingMessage(
        adapter="http",
        sender=Sender("bench", "prefix", "Pat"),
        place=_place(thread),
        event_id=uuid4().hex,
        content=content,
        sent_at=datetime.now(UTC),
    )
    accepted = await app.inbox.accept(message)
    response = await asyncio.wait_for(app.events.response(accepted.inbox_id), TURN_SECONDS)
    if response.error is not None:
        raise RuntimeError(f"a turn of the bench failed: {response.error}")
