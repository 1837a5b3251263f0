"""What the loop adds to a turn: how well tools run concurrently, and the cost of streaming an answer.

The waves run in the benchmark's own process, because no module of Parley has a tool that only takes 100 ms.
"""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from pydantic import SecretStr
from sqlalchemy import text

from adapters.cli.compose import open_app
from agent.app import App
from agent.tools.modules import ModuleTools
from shared.log import configure_logging
from shared.messages import IncomingMessage, Permission, Place, Sender
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.bench.children import Parley
from tests.bench.model import mark
from tests.bench.prefix import working
from tests.bench.statements import new_database

NAP_SECONDS = 0.1
STREAM_MS = 500
TURN_SECONDS = 60

WAVE = text("""
SELECT 1000 * extract(epoch FROM max(created_at) - min(created_at)) FROM turn_events
WHERE turn_id = :turn_id AND name IN ('tool_call', 'tool_result')
""")


async def nap(_context: ToolContext, skip: int = 0) -> dict[str, int]:
    """Sleep for a tenth of a second."""
    await asyncio.sleep(NAP_SECONDS)
    return {"skipped": skip}


async def waves(home: Path, base_url: str, turns: int) -> dict[int, tuple[float, ...]]:
    """Return how many milliseconds passed from the recorded calls to the last result, in waves of one and of eight."""
    configure_logging("WARNING", "console")
    address = await new_database(home, "waves")
    settings = Settings(
        parley_home=home,
        llm_models=("openai/bench",),
        openai_base_url=base_url,
        openai_api_key=SecretStr("bench"),
        default_guest_modules=("bench",),
        default_guest_token_budget=10**9,
    )
    modules = ModuleTools([Tool(nap, Permission.GUEST, module="bench")])
    durations: dict[int, list[float]] = {1: [], 8: []}
    async with open_app(settings, address, modules=modules) as base, working(base) as app:
        await _wave(app, 1)
        # Alternating, so that a busy machine slows both.
        for _ in range(turns):
            for tools, times in durations.items():
                times.append(await _wave(app, tools))
    return {tools: tuple(samples) for tools, samples in durations.items()}


async def _wave(app: App, tools: int) -> float:
    message = IncomingMessage(
        adapter="http",
        sender=Sender("bench", "waves"),
        place=Place("bench", None, uuid4().hex, is_direct=True),
        event_id=uuid4().hex,
        content=mark(tools=tools, tool="bench__nap"),
        sent_at=datetime.now(UTC),
    )
    accepted = await app.inbox.accept(message)
    response = await asyncio.wait_for(app.events.response(accepted.inbox_id), TURN_SECONDS)
    if response.error is not None or len(response.tool_calls_made) != tools:
        raise RuntimeError(f"a turn of the bench failed: {response}")
    async with app.database.statement() as session:
        return float((await session.execute(WAVE, {"turn_id": response.turn_id})).scalar_one())


async def streams(parley: Parley, turns: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the milliseconds of turns with a model that takes 500 ms: streamed in 100 chunks, and not streamed."""
    watched: list[float] = []
    whole: list[float] = []
    content = mark(delay=STREAM_MS)
    for number in range(-1, turns):
        for take, times in ((parley.watch, watched), (parley.say, whole)):
            start = time.perf_counter()
            await take(0, f"streams-{number}", content)
            if number >= 0:
                times.append((time.perf_counter() - start) * 1000)
        if number < 0:
            await parley.lift_budgets()
    return tuple(watched), tuple(whole)
