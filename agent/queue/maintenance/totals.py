"""Totals of turns, model calls and tool calls, kept so that the metrics need not read every row that there ever was.

A row is counted once, some minutes after it was inserted; until then the metrics read it from its own table. Ids are
given before their rows become visible, so a step stops at the first row that is too young: behind it a row could be
missing. It also stops at a running turn, unless that has run for a day and so was abandoned.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from agent.queue.maintenance.steps import Steps
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements

statements = load_statements(__file__)

STEP_ROWS = 5000
# Seconds, the upper bounds of the classes in which calls of tools are counted.
TOOL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
BOUNDS = {"bounds": [*TOOL_SECONDS, float("inf")]}

# What went wrong: its kind, its subject and a detail (columns of `event_totals`), and how often.
Events = Counter[tuple[str, str, str]]


async def count_finished(steps: Steps) -> None:
    """Add the rows that can be counted to the totals."""
    for statement in (statements.count_turns, statements.count_calls, statements.count_tools):
        while (rows := await steps.run(statement, {"step": STEP_ROWS, **BOUNDS})) and rows[0].has_more:
            pass


async def store_events(database: Database, source: Callable[[], Events], events: Events) -> None:
    """Add what a process has counted since the last time to the totals.

    `events` has what could not be stored because the database was lost; it is stored with the next ones.
    """
    events.update(source())
    if not events:
        return
    rows = [
        {"kind": kind, "subject": subject, "detail": detail, "events": count}
        for (kind, subject, detail), count in events.items()
    ]
    async with database.statement() as session:
        await session.execute(statements.add_events, {"events": json.dumps(rows)})
    events.clear()


async def read_turn_totals(session: Session) -> Sequence[Any]:
    """Return turns, seconds, waves and model calls of all finished turns of messages, by loop mode and outcome."""
    return (await session.execute(statements.read_turn_totals)).all()


async def read_call_totals(session: Session) -> Sequence[Any]:
    """Return calls, tokens, cost and calls without a known price of all model calls, by model and purpose."""
    return (await session.execute(statements.read_call_totals)).all()


async def read_tool_use(session: Session) -> dict[str, int]:
    """Return how often each tool was called, as far as it is counted."""
    return {row.tool: int(row.calls) for row in (await session.execute(statements.read_tool_use)).all()}


async def read_tool_totals(session: Session) -> Sequence[Any]:
    """Return the calls of tools by tool, outcome and the class of their seconds, with the seconds of all of them."""
    return (await session.execute(statements.read_tool_totals, BOUNDS)).all()


async def read_event_totals(session: Session) -> Sequence[Any]:
    """Return how often each error ended a turn, each model failed, and another one answered in its place."""
    return (await session.execute(statements.read_event_totals)).all()
