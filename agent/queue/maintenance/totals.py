"""Totals of turns, model calls and tool calls, kept so that the metrics need not read every row that there ever was.

A row is counted once, some minutes after it was inserted; until then the metrics read it from its own table. Ids are
given before their rows become visible, so a step stops at the first row that is too young: behind it a row could be
missing. It also stops at a running turn, unless that has run for a day and so was abandoned.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import text

from agent.queue.maintenance.steps import Steps
from shared.db.database import Database
from shared.db.driver import Session

STEP_ROWS = 5000
# Seconds, the upper bounds of the classes in which calls of tools are counted.
TOOL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# What went wrong: its kind, its subject and a detail (columns of `event_totals`), and how often.
Events = Counter[tuple[str, str, str]]

ADD_EVENTS = """
INSERT INTO event_totals (kind, subject, detail, events)
{}
ON CONFLICT (kind, subject, detail) DO UPDATE SET events = event_totals.events + excluded.events, last_at = now()
"""

COUNT_TURNS = text(f"""
WITH step AS (
    SELECT *, started_at > now() - interval '5 minutes'
              OR status = 'running' AND parent_turn_id IS NULL AND started_at > now() - interval '1 day' AS is_open
    FROM turns WHERE id > (SELECT last_id FROM counted_rows WHERE table_name = 'turns') ORDER BY id LIMIT :step
), countable AS (
    SELECT * FROM step WHERE id < coalesce((SELECT min(id) FROM step WHERE is_open), 9223372036854775807)
), counted AS (
    INSERT INTO turn_totals (loop_mode, outcome, turns, seconds, waves, model_calls)
    SELECT loop_mode, CASE WHEN status <> 'answered' THEN status WHEN finished THEN 'finished' ELSE 'unfinished' END,
           count(*), sum(extract(epoch FROM finished_at - started_at)), sum(waves), sum(iterations)
    FROM countable WHERE status <> 'running' AND parent_turn_id IS NULL GROUP BY 1, 2
    ON CONFLICT (loop_mode, outcome) DO UPDATE SET
        turns = turn_totals.turns + excluded.turns, seconds = turn_totals.seconds + excluded.seconds,
        waves = turn_totals.waves + excluded.waves, model_calls = turn_totals.model_calls + excluded.model_calls
), errors AS ({
    ADD_EVENTS.format('''
    SELECT 'turn_error', error, '', count(*) FROM countable
    WHERE status <> 'running' AND parent_turn_id IS NULL AND error IS NOT NULL GROUP BY error
''')
})
UPDATE counted_rows SET last_id = done.last_id
FROM (SELECT max(id) AS last_id, count(*) = :step AS has_more FROM countable) AS done
WHERE table_name = 'turns' AND done.last_id IS NOT NULL
RETURNING done.has_more
""")

COUNT_CALLS = text("""
WITH step AS (
    SELECT *, created_at > now() - interval '5 minutes' AS is_open
    FROM token_logs WHERE id > (SELECT last_id FROM counted_rows WHERE table_name = 'token_logs')
    ORDER BY id LIMIT :step
), countable AS (
    SELECT * FROM step WHERE id < coalesce((SELECT min(id) FROM step WHERE is_open), 9223372036854775807)
), counted AS (
    INSERT INTO call_totals (model, purpose, calls, input_tokens, cached_tokens, output_tokens, cost, unpriced)
    SELECT model, purpose, count(*), sum(input_tokens), sum(cached_tokens), sum(output_tokens),
           coalesce(sum(cost_estimate), 0), count(*) FILTER (WHERE cost_estimate IS NULL)
    FROM countable GROUP BY model, purpose
    ON CONFLICT (model, purpose) DO UPDATE SET
        calls = call_totals.calls + excluded.calls, input_tokens = call_totals.input_tokens + excluded.input_tokens,
        cached_tokens = call_totals.cached_tokens + excluded.cached_tokens,
        output_tokens = call_totals.output_tokens + excluded.output_tokens, cost = call_totals.cost + excluded.cost,
        unpriced = call_totals.unpriced + excluded.unpriced
)
UPDATE counted_rows SET last_id = done.last_id
FROM (SELECT max(id) AS last_id, count(*) = :step AS has_more FROM countable) AS done
WHERE table_name = 'token_logs' AND done.last_id IS NOT NULL
RETURNING done.has_more
""")

# The second bound of the ids is for the planner: with one bound it expects a third of the table, and reads all of it.
READ_TURNS = text("""
WITH mark AS MATERIALIZED (SELECT last_id FROM counted_rows WHERE table_name = 'turns')
SELECT loop_mode, outcome, sum(turns) AS turns, sum(seconds) AS seconds, sum(waves) AS waves,
       sum(model_calls) AS model_calls
FROM (
    SELECT loop_mode, outcome, turns, seconds, waves, model_calls FROM turn_totals
    UNION ALL
    SELECT loop_mode, CASE WHEN status <> 'answered' THEN status WHEN finished THEN 'finished' ELSE 'unfinished' END,
           1, extract(epoch FROM finished_at - started_at), waves, iterations
    FROM turns
    WHERE id > (SELECT last_id FROM mark) AND id < (SELECT last_id + 1000000000000 FROM mark)
      AND status <> 'running' AND parent_turn_id IS NULL
) AS every GROUP BY loop_mode, outcome
""")

READ_CALLS = text("""
WITH mark AS MATERIALIZED (SELECT last_id FROM counted_rows WHERE table_name = 'token_logs')
SELECT model, purpose, sum(calls) AS calls, sum(input_tokens) AS input_tokens, sum(cached_tokens) AS cached_tokens,
       sum(output_tokens) AS output_tokens, sum(cost) AS cost, sum(unpriced) AS unpriced
FROM (
    SELECT model, purpose, calls, input_tokens, cached_tokens, output_tokens, cost, unpriced FROM call_totals
    UNION ALL
    SELECT model, purpose, 1, input_tokens, cached_tokens, output_tokens, coalesce(cost_estimate, 0),
           CAST(cost_estimate IS NULL AS int)
    FROM token_logs
    WHERE id > (SELECT last_id FROM mark) AND id < (SELECT last_id + 1000000000000 FROM mark)
) AS every GROUP BY model, purpose
""")


# From the record of a call to that of its result: waiting for others of the wave counts, too.
TOOL_CALLS = """
SELECT result.id, result.tool_name AS tool, coalesce(result.outcome, 'result') AS outcome,
       greatest(0, extract(epoch FROM result.created_at - call.created_at)) AS seconds
FROM messages AS result JOIN messages AS call
  ON call.turn_id = result.turn_id AND call.tool_call_id = result.tool_call_id AND call.role = 'tool_call'
WHERE result.role = 'tool_result' AND result.id > {after} AND result.id < {before}
"""
CLASSIFY = f"""
SELECT tool, outcome, (
           SELECT min(bound) FROM unnest(CAST(ARRAY{[*TOOL_SECONDS]} || CAST('Infinity' AS float) AS float[])) AS bound
           WHERE seconds <= bound
       ) AS most_seconds, count(*) AS calls, sum(seconds) AS seconds
FROM ({{calls}}) AS each_call GROUP BY 1, 2, 3
"""
LAST_MESSAGE = "(SELECT last_id FROM {})"
COUNT_TOOLS = text(f"""
WITH mark AS MATERIALIZED (
    SELECT last_id FROM counted_rows WHERE table_name = 'messages'
), step AS MATERIALIZED (
    SELECT id, created_at > now() - interval '5 minutes' AS is_open
    FROM messages WHERE id > (SELECT last_id FROM mark) ORDER BY id LIMIT :step
), countable AS MATERIALIZED (
    SELECT max(id) AS last_id, count(*) AS rows
    FROM step WHERE id < coalesce((SELECT min(id) FROM step WHERE is_open), 9223372036854775807)
), counted AS (
    INSERT INTO tool_totals (tool, outcome, most_seconds, calls, seconds)
    {
    CLASSIFY.format(
        calls=TOOL_CALLS.format(after=LAST_MESSAGE.format("mark"), before="(SELECT last_id + 1 FROM countable)")
    )
}
    ON CONFLICT (tool, outcome, most_seconds) DO UPDATE SET
        calls = tool_totals.calls + excluded.calls, seconds = tool_totals.seconds + excluded.seconds
)
UPDATE counted_rows SET last_id = countable.last_id FROM countable
WHERE table_name = 'messages' AND countable.last_id IS NOT NULL
RETURNING countable.rows = :step AS has_more
""")
READ_USE = text("SELECT tool, sum(calls) AS calls FROM tool_totals GROUP BY tool")
READ_TOOLS = text(f"""
WITH mark AS MATERIALIZED (SELECT last_id FROM counted_rows WHERE table_name = 'messages')
SELECT tool, outcome, most_seconds, sum(calls) AS calls, sum(seconds) AS seconds FROM (
    SELECT tool, outcome, most_seconds, calls, seconds FROM tool_totals
    UNION ALL
    {
    CLASSIFY.format(
        calls=TOOL_CALLS.format(after=LAST_MESSAGE.format("mark"), before="(SELECT last_id + 1000000000000 FROM mark)")
    )
}
) AS every GROUP BY tool, outcome, most_seconds ORDER BY tool, outcome, most_seconds
""")

ADD_ALL = text(
    ADD_EVENTS.format("""
SELECT * FROM jsonb_to_recordset(CAST(:events AS jsonb)) AS given (kind text, subject text, detail text, events bigint)
ORDER BY kind, subject, detail
""")
)
READ_EVENTS = text("""
WITH mark AS MATERIALIZED (SELECT last_id FROM counted_rows WHERE table_name = 'turns')
SELECT kind, subject, detail, sum(events) AS events FROM (
    SELECT kind, subject, detail, events FROM event_totals
    UNION ALL
    SELECT 'turn_error', error, '', 1 FROM turns
    WHERE id > (SELECT last_id FROM mark) AND id < (SELECT last_id + 1000000000000 FROM mark)
      AND status <> 'running' AND parent_turn_id IS NULL AND error IS NOT NULL
) AS every GROUP BY kind, subject, detail
""")


async def count_finished(steps: Steps) -> None:
    """Add the rows that can be counted to the totals."""
    for statement in (COUNT_TURNS, COUNT_CALLS, COUNT_TOOLS):
        while (rows := await steps.run(statement, {"step": STEP_ROWS})) and rows[0].has_more:
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
        await session.execute(ADD_ALL, {"events": json.dumps(rows)})
    events.clear()


async def read_turn_totals(session: Session) -> Sequence[Any]:
    """Return turns, seconds, waves and model calls of all finished turns of messages, by loop mode and outcome."""
    return (await session.execute(READ_TURNS)).all()


async def read_call_totals(session: Session) -> Sequence[Any]:
    """Return calls, tokens, cost and calls without a known price of all model calls, by model and purpose."""
    return (await session.execute(READ_CALLS)).all()


async def read_tool_use(session: Session) -> dict[str, int]:
    """Return how often each tool was called, as far as it is counted."""
    return {row.tool: int(row.calls) for row in (await session.execute(READ_USE)).all()}


async def read_tool_totals(session: Session) -> Sequence[Any]:
    """Return the calls of tools by tool, outcome and the class of their seconds, with the seconds of all of them."""
    return (await session.execute(READ_TOOLS)).all()


async def read_event_totals(session: Session) -> Sequence[Any]:
    """Return how often each error ended a turn, each model failed, and another one answered in its place."""
    return (await session.execute(READ_EVENTS)).all()
