"""Conversations that have paused, a summariser for tests, and the answers of its model."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from agent.llm.router import Router
from agent.memory.summaries.summarizer import Summarizer
from agent.memory.turns import TurnMemories
from shared.clock import SystemClock
from tests.standins.openai_api import Answer, Reply
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.connections import connected
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley

LISTED = "SELECT count(*) FROM unremembered_turns"
BUSY = "SELECT count(*) FROM conversations WHERE summary_due_at <= now() OR summary_claimed_until > now()"


def is_summary(body: Body) -> bool:
    """Tell whether a model request asks for a summary."""
    return str(body["messages"][0]["content"]).startswith("You keep the notes")


def summarised_by(answer: Callable[[str], str | dict[str, Any] | Reply]) -> Callable[[Body, int], Reply]:
    """Return a script that answers requests for summaries with what `answer` makes of their text."""

    def play(body: Body, _number: int) -> Reply:
        if not is_summary(body):
            return Answer("Noted.")
        reply = answer(last_user_text(body))
        if isinstance(reply, str):
            reply = {"summary": reply, "facts": []}
        return Answer(json.dumps(reply)) if isinstance(reply, dict) else reply

    return play


def new_summarizer(parley: Parley, router: Router | None = None) -> Summarizer:
    """Return a summariser beside the worker's own."""
    return Summarizer(parley.app.database, router or parley.app.models.router, parley.app.memory, SystemClock())


async def pause(parley: Parley) -> None:
    """Let half an hour pass in all conversations."""
    await parley.sql(
        "UPDATE conversations SET last_active_at = last_active_at - interval '31 minutes',"
        " summary_due_at = summary_due_at - interval '31 minutes'"
    )


async def summarise(parley: Parley) -> None:
    """Write the summaries that are due, beside the worker."""
    async with asyncio.timeout(PATIENCE):
        await new_summarizer(parley).run()
        while await parley.value(BUSY):  # noqa: ASYNC110  # the worker may have claimed one
            await asyncio.sleep(0.05)


async def pause_and_summarise(parley: Parley) -> None:
    """Let half an hour pass and write the summaries."""
    await pause(parley)
    await summarise(parley)


async def remembered(parley: Parley) -> list[Any]:
    """Wait until all turns that have ended are remembered; return the memories in their order."""
    async with asyncio.timeout(PATIENCE):
        await writer(parley).run()
        while await parley.value(LISTED):  # noqa: ASYNC110  # the worker may be storing them
            await asyncio.sleep(0.02)
    return await memories(parley)


def writer(parley: Parley) -> TurnMemories:
    """Return what stores the messages of turns, beside the worker's own."""
    return TurnMemories(parley.app.database, parley.app.memory, parley.app.toolbox.find)


async def memories(parley: Parley) -> list[Any]:
    """Return all memories, as the owner of the tables sees them."""
    async with connected(parley.app.database.address) as owner:
        return list(await owner.fetch("SELECT * FROM memories ORDER BY turn_id, id"))
