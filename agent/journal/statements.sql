-- name: store_full_results
-- Another attempt that runs the turn by now writes its own results.
INSERT INTO full_results (turn_id, seq, content)
SELECT turns.id, kept.seq, kept.content
FROM turns, unnest(CAST(:seqs AS integer[]), CAST(:contents AS text[])) AS kept (seq, content)
WHERE turns.id = :turn_id AND turns.attempt = :attempt AND turns.status = 'running'
ON CONFLICT (turn_id, seq) DO UPDATE SET content = excluded.content;

-- name: record_steps
SELECT stop_requested, rights.* FROM parley_record(
    p_turn_id => :turn_id, p_attempt => :attempt, p_steps => :steps, p_events => :events
) CROSS JOIN parley_rights(:turn_id) AS rights;

-- name: record_and_settle
SELECT * FROM parley_record(
    p_turn_id => :turn_id, p_attempt => :attempt, p_steps => :steps, p_events => :events,
    p_calls => :calls, p_reserve => :reserve, p_cost => CAST(:cost AS numeric), p_seconds => :seconds
) CROSS JOIN parley_rights(:turn_id) AS rights;

-- name: settle_calls
SELECT * FROM parley_settle(
    p_turn_id => :turn_id, p_attempt => :attempt, p_calls => :calls, p_reserve => :reserve,
    p_cost => CAST(:cost AS numeric), p_seconds => :seconds
);

-- name: list_steps
-- The fields of `Step`, then those of `ToolUse`, in their order.
SELECT seq, role, content, token_count, model_used, speaker, platform_message_id, plan,
       tool_call_id, tool_name, outcome, confirmation
FROM messages WHERE turn_id = :turn_id ORDER BY seq;

-- name: find_message
SELECT id FROM inbox WHERE id = :inbox_id;

-- name: find_response
SELECT inbox.status, turns.id, turns.conversation_id, outbox.content, outbox.files, turns.finished, turns.iterations,
    turns.model, turns.error,
    CASE WHEN turns.loop_mode = 'planner' THEN (
        SELECT payload ->> 'action' FROM turn_events
        WHERE turn_events.turn_id = turns.id AND name = 'turn_complete' ORDER BY seq DESC LIMIT 1
    ) END AS action,
    (SELECT confirmations.id FROM confirmations WHERE confirmations.turn_id = turns.id) AS confirmation_id,
    (SELECT json_agg(json_build_object('seq', seq, 'role', role, 'content', content, 'tool_call_id', tool_call_id,
                                       'tool_name', tool_name) ORDER BY seq)
     FROM messages WHERE messages.turn_id = turns.id AND role IN ('tool_call', 'tool_result')) AS steps,
    (SELECT json_build_array(sum(input_tokens), sum(cached_tokens), sum(output_tokens),
                             CASE WHEN count(*) = count(cost_estimate) THEN sum(cost_estimate) END)
     FROM token_logs WHERE turn_id = ANY(ARRAY(  -- noqa: PRS
         WITH RECURSIVE subtree AS (
             SELECT turns.id
             UNION ALL SELECT child.id FROM turns AS child JOIN subtree ON child.parent_turn_id = subtree.id
         ) SELECT id FROM subtree))) AS usage
FROM inbox LEFT JOIN turns ON turns.id = inbox.turn_id LEFT JOIN outbox ON outbox.turn_id = turns.id
WHERE inbox.id = :inbox_id AND (
    outbox.id IS NOT NULL OR inbox.status = 'failed' OR inbox.status = 'cancelled' AND inbox.turn_id IS NULL
);

-- name: count_calls
-- `iterations` counts the model calls of a turn. For earlier turns with these errors, whose last call got no answer,
-- the recorded answers are counted instead. Later turns in this conversation with a parent are child turns of this one.
-- Agents with a script of their own number their calls by themselves.
SELECT coalesce(sum(CASE WHEN id < :turn_id AND error IN ('models_unavailable', 'too_long')
    THEN (SELECT count(*) FROM messages WHERE messages.turn_id = turns.id AND role = 'assistant')
    ELSE iterations END), 0) AS position
FROM turns WHERE conversation_id = :conversation_id AND (id <= :turn_id OR parent_turn_id >= :turn_id)
      AND NOT EXISTS (SELECT FROM agents WHERE agents.name = turns.agent AND agents.env <> '{}');

-- name: read_history
SELECT parley_history(
    :conversation_id, :first, :before, :user_id, (SELECT shown_turns FROM conversations WHERE id = :conversation_id)
);
