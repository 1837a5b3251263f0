"""Memories are deleted after the days that `memory_retention` has for their server and kind; all others stay."""

from typing import Any

import asyncpg

from agent.queue.maintenance.retention import remove_expired_memories
from agent.queue.maintenance.steps import Steps
from shared.clock import SystemClock
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import Parley
from tests.support.summaries import memories, pause_and_summarise, remembered, summarised_by

KEEP = "INSERT INTO memory_retention (platform, platform_server_id, kind, kept_days) VALUES "
AGE = """
UPDATE memories SET said_at = said_at - interval '31 days';
UPDATE conversations SET last_active_at = last_active_at - interval '31 days'
"""


def summary_of(_: str) -> dict[str, Any]:
    facts = [{"message": 1, "fact": "The walrus is called Rex.", "confidence": 0.9, "replaces": None}]
    return {"summary": "The walrus is called Rex.", "facts": facts}


async def list_kept(parley: Parley) -> list[tuple[str, str]]:
    """Return kind and place of what is remembered."""
    return sorted({(memory["source"], memory["platform_server_id"] or "dm") for memory in await memories(parley)})


async def expire(parley: Parley) -> dict[str, int]:
    steps = Steps(parley.app.database, SystemClock(), pause_factor=0)
    return await remove_expired_memories(steps)


async def test_each_server_and_kind_has_its_days_and_the_most_specific_row_decides(
    parley: Parley, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    model.play(summarised_by(summary_of))
    for server in ("strict", "facts", "lax", None):
        # Ann's direct messages would know the fact from her servers, if those were summarised first.
        await parley.ask("the walrus is called Rex", server=server, user="ann" if server else "bob")
    await remembered(parley)
    await pause_and_summarise(parley)
    assert len(await list_kept(parley)) == 8
    await owner.execute(AGE)
    assert await expire(parley) == {"memories": 0, "summaries": 0}

    await owner.execute(
        KEEP + "('test', 'lax', 'turn', 40), ('test', 'facts', 'fact', 40), ('test', NULL, 'turn', 30),"
        " ('test', 'strict', 'summary', 30)"
    )
    counts = await expire(parley)

    assert counts["summaries"] == 1
    assert await list_kept(parley) == [
        ("fact", "dm"), ("fact", "facts"), ("fact", "lax"), ("turn", "dm"), ("turn", "lax"),
    ]  # fmt: skip
    assert await expire(parley) == {"memories": 0, "summaries": 0}
    summaries = "SELECT platform_server_id, summary FROM conversations WHERE summary IS NULL"
    assert await parley.sql(summaries) == [("strict", None)]
    await pause_and_summarise(parley)
    assert await parley.sql(summaries) == [("strict", None)]

    await owner.execute(KEEP + "(NULL, NULL, 'turn', 10), (NULL, NULL, 'fact', 10)")
    await expire(parley)
    assert await list_kept(parley) == [("fact", "facts"), ("turn", "lax")]
    assert await parley.value("SELECT count(*) FROM messages WHERE role = 'user'") == 4
