-- name: list_expired_files
-- Files that storage did not delete this time are passed over by `:after`.
SELECT file.id, file.minio_key
FROM servers AS server
JOIN conversations AS place USING (platform, platform_server_id)
JOIN file_records AS file ON file.conversation_id = place.id
WHERE server.files_kept_days IS NOT NULL AND file.id > :after
  AND file.created_at < now() - server.files_kept_days * interval '1 day'
ORDER BY file.id LIMIT :step;

-- name: remove_files
DELETE FROM file_records WHERE id = ANY(:ids) RETURNING id;

-- name: remove_words
DELETE FROM known_words WHERE kind = :kind AND word NOT IN (SELECT unnest(CAST(:words AS text[])));

-- name: add_words
-- A difference of sets is built in one pass, whatever the statistics say: a join compared each word with each.
INSERT INTO known_words (kind, word)
SELECT :kind, word FROM (
    SELECT unnest(CAST(:words AS text[])) AS word
    EXCEPT SELECT word FROM known_words WHERE kind = :kind
) AS news
ON CONFLICT DO NOTHING;

-- name: begin_step
-- If the server crashes, the last steps are done again, so that none has to wait for the disk.
SELECT pg_try_advisory_xact_lock(:key) AS is_ours, set_config('synchronous_commit', 'off', true);

-- name: count_turns
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
), errors AS (
    INSERT INTO event_totals (kind, subject, detail, events)
    SELECT 'turn_error', error, '', count(*) FROM countable
    WHERE status <> 'running' AND parent_turn_id IS NULL AND error IS NOT NULL GROUP BY error
    ON CONFLICT (kind, subject, detail) DO UPDATE SET events = event_totals.events + excluded.events, last_at = now()
)
UPDATE counted_rows SET last_id = done.last_id
FROM (SELECT max(id) AS last_id, count(*) = :step AS has_more FROM countable) AS done
WHERE table_name = 'turns' AND done.last_id IS NOT NULL
RETURNING done.has_more;

-- name: count_calls
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
RETURNING done.has_more;

-- name: read_turn_totals
-- The second bound of the ids is for the planner: with one bound it expects a third of the table, and reads all of it.
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
) AS every GROUP BY loop_mode, outcome;

-- name: read_call_totals
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
) AS every GROUP BY model, purpose;

-- name: count_tools
-- From the record of a call to that of its result: waiting for others of the wave counts, too.
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
    SELECT tool, outcome,
           (SELECT min(bound) FROM unnest(CAST(:bounds AS float[])) AS bound WHERE seconds <= bound) AS most_seconds,
           count(*) AS calls, sum(seconds) AS seconds
    FROM (
        SELECT result.tool_name AS tool, coalesce(result.outcome, 'result') AS outcome,
               greatest(0, extract(epoch FROM result.created_at - call.created_at)) AS seconds
        FROM messages AS result JOIN messages AS call
          ON call.turn_id = result.turn_id AND call.tool_call_id = result.tool_call_id AND call.role = 'tool_call'
        WHERE result.role = 'tool_result' AND result.id > (SELECT last_id FROM mark)
          AND result.id < (SELECT last_id + 1 FROM countable)
    ) AS calls GROUP BY 1, 2, 3
    ON CONFLICT (tool, outcome, most_seconds) DO UPDATE SET
        calls = tool_totals.calls + excluded.calls, seconds = tool_totals.seconds + excluded.seconds
)
UPDATE counted_rows SET last_id = countable.last_id FROM countable
WHERE table_name = 'messages' AND countable.last_id IS NOT NULL
RETURNING countable.rows = :step AS has_more;

-- name: read_tool_use
SELECT tool, sum(calls) AS calls FROM tool_totals GROUP BY tool;

-- name: read_tool_totals
WITH mark AS MATERIALIZED (SELECT last_id FROM counted_rows WHERE table_name = 'messages')
SELECT tool, outcome, most_seconds, sum(calls) AS calls, sum(seconds) AS seconds FROM (
    SELECT tool, outcome, most_seconds, calls, seconds FROM tool_totals
    UNION ALL
    SELECT tool, outcome,
           (SELECT min(bound) FROM unnest(CAST(:bounds AS float[])) AS bound WHERE seconds <= bound) AS most_seconds,
           count(*) AS calls, sum(seconds) AS seconds
    FROM (
        SELECT result.tool_name AS tool, coalesce(result.outcome, 'result') AS outcome,
               greatest(0, extract(epoch FROM result.created_at - call.created_at)) AS seconds
        FROM messages AS result JOIN messages AS call
          ON call.turn_id = result.turn_id AND call.tool_call_id = result.tool_call_id AND call.role = 'tool_call'
        WHERE result.role = 'tool_result' AND result.id > (SELECT last_id FROM mark)
          AND result.id < (SELECT last_id + 1000000000000 FROM mark)
    ) AS calls GROUP BY 1, 2, 3
) AS every GROUP BY tool, outcome, most_seconds ORDER BY tool, outcome, most_seconds;

-- name: add_events
INSERT INTO event_totals (kind, subject, detail, events)
SELECT * FROM jsonb_to_recordset(CAST(:events AS jsonb)) AS given (kind text, subject text, detail text, events bigint)
ORDER BY kind, subject, detail
ON CONFLICT (kind, subject, detail) DO UPDATE SET events = event_totals.events + excluded.events, last_at = now();

-- name: read_event_totals
WITH mark AS MATERIALIZED (SELECT last_id FROM counted_rows WHERE table_name = 'turns')
SELECT kind, subject, detail, sum(events) AS events FROM (
    SELECT kind, subject, detail, events FROM event_totals
    UNION ALL
    SELECT 'turn_error', error, '', 1 FROM turns
    WHERE id > (SELECT last_id FROM mark) AND id < (SELECT last_id + 1000000000000 FROM mark)
      AND status <> 'running' AND parent_turn_id IS NULL AND error IS NOT NULL
) AS every GROUP BY kind, subject, detail;

-- name: remove_expired
SELECT last, removed, has_more FROM parley_remove_expired(:table, :days, :after);

-- name: make_partitions
SELECT parley_make_partitions(:days) AS made;

-- name: list_strays
SELECT table_name, last_turn_id FROM parley_list_strays();

-- name: drop_partition
SELECT parley_drop_partition(:table, :days) AS dropped;

-- name: expire_memories
SELECT last, removed, has_more FROM parley_expire_memories(:after, :step);

-- name: expire_summaries
SELECT last, removed, has_more FROM parley_expire_summaries(:after, :step);
