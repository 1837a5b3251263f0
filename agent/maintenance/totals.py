"""Totals of finished turns and model calls, kept so that the metrics need not read every row that there ever was.

A row is counted once, some minutes after it was inserted; until then the metrics read it from its own table. Ids are
given before their rows become visible, so a step stops at the first row that is too young: behind it a row could be
missing. It also stops at a running turn, unless that has run for a day and so was abandoned.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from agent.maintenance.steps import Steps
from shared.db.driver import Session

STEP_ROWS = 5000

COUNT_TURNS = text("""
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
)
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
    INSERT INTO call_totals (model, purpose, calls, input_tokens, cached_tokens, output_tokens, cost)
    SELECT model, purpose, count(*), sum(input_tokens), sum(cached_tokens), sum(output_tokens),
           coalesce(sum(cost_estimate), 0)
    FROM countable GROUP BY model, purpose
    ON CONFLICT (model, purpose) DO UPDATE SET
        calls = call_totals.calls + excluded.calls, input_tokens = call_totals.input_tokens + excluded.input_tokens,
        cached_tokens = call_totals.cached_tokens + excluded.cached_tokens,
        output_tokens = call_totals.output_tokens + excluded.output_tokens, cost = call_totals.cost + excluded.cost
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
       sum(output_tokens) AS output_tokens, sum(cost) AS cost
FROM (
    SELECT model, purpose, calls, input_tokens, cached_tokens, output_tokens, cost FROM call_totals
    UNION ALL
    SELECT model, purpose, 1, input_tokens, cached_tokens, output_tokens, coalesce(cost_estimate, 0)
    FROM token_logs
    WHERE id > (SELECT last_id FROM mark) AND id < (SELECT last_id + 1000000000000 FROM mark)
) AS every GROUP BY model, purpose
""")


async def count_finished(steps: Steps) -> None:
    """Add the rows that can be counted to the totals."""
    for statement in (COUNT_TURNS, COUNT_CALLS):
        while (rows := await steps.run(statement, {"step": STEP_ROWS})) and rows[0].has_more:
            pass


async def read_turn_totals(session: Session) -> Sequence[Any]:
    """Return turns, seconds, waves and model calls of all finished turns of messages, by loop mode and outcome."""
    return (await session.execute(READ_TURNS)).all()


async def read_call_totals(session: Session) -> Sequence[Any]:
    """Return calls, tokens and cost of all model calls, by model and purpose."""
    return (await session.execute(READ_CALLS)).all()
