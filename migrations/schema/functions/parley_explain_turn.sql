-- Everything that is known about a turn, for `parley explain`, `admin.explain_turn` and `/why`: NULL when there is no such turn.
--
-- What the turn decided while it ran is in turn_contexts.reasons; the rest is read from the journal, the ledger and the outbox.
-- The persona is the version that answered, which is kept when the persona is changed or deleted. Times are in seconds.
-- Memories are named by their numbers: who may read them is decided where they are read.
CREATE FUNCTION public.parley_explain_turn(p_turn_id bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
WITH turn AS MATERIALIZED (
    SELECT turns.*, round(extract(epoch FROM coalesce(finished_at, now()) - started_at)::numeric, 3) AS seconds,
           coalesce((SELECT context.reasons FROM public.turn_contexts AS context WHERE context.turn_id = turns.id), '{}') AS reasons
    FROM public.turns WHERE turns.id = p_turn_id
), calls AS (
    -- The wave of a call is the number of answers before it.
    SELECT call.seq, call.tool_name AS tool, result.outcome,
           round(extract(epoch FROM result.created_at - call.created_at)::numeric, 3) AS seconds,
           (SELECT count(*) FROM public.messages AS answer
            WHERE answer.turn_id = p_turn_id AND answer.role = 'assistant' AND answer.seq < call.seq) AS wave
    FROM public.messages AS call
    LEFT JOIN public.messages AS result
        ON result.turn_id = p_turn_id AND result.tool_call_id = call.tool_call_id AND result.role = 'tool_result'
    WHERE call.turn_id = p_turn_id AND call.role = 'tool_call'
)
SELECT jsonb_build_object(
    'turn', jsonb_build_object(
        'id', turn.id, 'status', turn.status, 'attempt', turn.attempt, 'handovers', turn.handovers, 'mode', turn.loop_mode,
        'model', turn.model, 'model_calls', turn.iterations, 'waves', turn.waves, 'complete', turn.finished,
        'error', turn.error, 'cause', turn.cause, 'stop_requested', turn.stop_requested, 'agent', turn.agent,
        'parent_turn', turn.parent_turn_id, 'parent_call', turn.parent_call_id, 'started_at', turn.started_at,
        'finished_at', turn.finished_at, 'seconds', turn.seconds
    ),
    'place', (
        SELECT jsonb_build_object(
            'conversation', place.id, 'platform', place.platform, 'server', place.platform_server_id,
            'channel', place.platform_channel_id, 'thread', place.platform_thread_id, 'is_direct', place.is_direct
        ) FROM public.conversations AS place WHERE place.id = turn.conversation_id
    ),
    'person', (
        SELECT jsonb_build_object('id', person.id, 'name', person.display_name, 'permission', public.parley_permission(
            person.permission_level, person.permission_until, person.permission_after
        ))
        FROM public.users AS person WHERE person.id = turn.user_id
    ),
    'persona', jsonb_build_object(
        'name', 'built-in', 'version', NULL, 'chosen_by', turn.reasons -> 'persona' -> 'chosen_by',
        'why', CASE turn.reasons -> 'persona' ->> 'chosen_by'
            WHEN 'channel' THEN 'it belongs to the channel'
            WHEN 'server' THEN 'it belongs to the server'
            WHEN 'platform' THEN 'it belongs to the platform'
            WHEN 'default' THEN 'it is the default, and none belongs to the place'
            WHEN 'built_in' THEN 'no persona belongs to the place, and none is the default'
            WHEN 'agent' THEN 'it is the persona of the agent'
            WHEN 'request' THEN 'who asked has chosen it' END
    ) || coalesce((
        SELECT jsonb_build_object(
            'name', answered.name, 'version', answered.version, 'fields', answered.fields,
            'newest_version', (SELECT max(version) FROM public.persona_versions WHERE persona_id = answered.persona_id),
            'is_deleted', NOT EXISTS (SELECT FROM public.personas WHERE id = answered.persona_id)
        ) FROM public.persona_versions AS answered WHERE answered.id = turn.persona_version_id
    ), '{}'),
    'tools', turn.reasons -> 'tools',
    -- What is older than the history that was shown stands in the summary, or was left out.
    'context', turn.reasons - '{persona,tools,budget,routes}'::text[] || jsonb_build_object('turns_left_out', (
        SELECT count(*) FROM public.turns AS earlier
        WHERE earlier.conversation_id = turn.conversation_id AND earlier.parent_turn_id IS NULL
          AND earlier.id < coalesce((turn.reasons -> 'history' ->> 'first_turn')::bigint, turn.id)
    )),
    'budget', jsonb_build_object(
        'limits', turn.reasons -> 'budget' -> 'limits', 'admissions', turn.reasons -> 'budget' -> 'admissions',
        'spent', (SELECT sum(input_tokens + output_tokens) FROM public.token_logs WHERE turn_id = turn.id),
        'held', (SELECT sum(tokens) FROM public.budget_reservations WHERE turn_id = turn.id)
    ),
    'routes', turn.reasons -> 'routes',
    'inbox', (
        SELECT jsonb_agg(jsonb_build_object(
            'id', message.id, 'adapter', message.adapter, 'speaker', message.platform_username, 'event', message.platform_event_id,
            'status', message.status, 'sent_at', message.sent_at, 'files', jsonb_array_length(message.attachments),
            -- A platform has a clock of its own.
            'seconds_to_arrive', greatest(0, round(extract(epoch FROM message.created_at - message.sent_at)::numeric, 3)),
            'seconds_waited', round(extract(epoch FROM turn.started_at - message.created_at)::numeric, 3)
        ) ORDER BY message.sent_at, message.id) FROM public.inbox AS message WHERE message.turn_id = turn.id
    ),
    'steps', (
        SELECT jsonb_agg(jsonb_build_object(
            'seq', step.seq, 'role', step.role, 'tool', step.tool_name, 'outcome', step.outcome, 'tokens', step.token_count,
            'at', round(extract(epoch FROM step.created_at - turn.started_at)::numeric, 3), 'model', step.model_used,
            'content', coalesce(step.plan::text, step.content)
        ) ORDER BY step.seq) FROM public.messages AS step WHERE step.turn_id = turn.id
    ),
    'waves', (
        SELECT jsonb_agg(one.wave ORDER BY one.number) FROM (
            SELECT calls.wave AS number, jsonb_build_object(
                'wave', calls.wave, 'seconds', max(calls.seconds), 'calls', jsonb_agg(
                    jsonb_build_object('tool', calls.tool, 'outcome', calls.outcome, 'seconds', calls.seconds) ORDER BY calls.seq
                )
            ) AS wave FROM calls GROUP BY calls.wave
        ) AS one
    ),
    'long_results', (
        SELECT jsonb_agg(jsonb_build_object(
            'seq', step.seq, 'tool', step.tool_name, 'characters_shown', length(step.content),
            'characters_kept', length(whole.content), 'content', whole.content
        ) ORDER BY step.seq)
        FROM public.full_results AS whole JOIN public.messages AS step USING (turn_id, seq) WHERE turn_id = turn.id
    ),
    'agents', (
        WITH RECURSIVE below AS (
            SELECT asked.id FROM public.turns AS asked WHERE asked.parent_turn_id = turn.id
            UNION ALL SELECT asked.id FROM public.turns AS asked JOIN below ON asked.parent_turn_id = below.id
        )
        SELECT jsonb_agg(jsonb_build_object(
            'turn', child.id, 'asked_by', child.parent_turn_id, 'agent', child.agent, 'status', child.status,
            'error', child.error, 'model_calls', child.iterations,
            'tokens', (SELECT sum(input_tokens + output_tokens) FROM public.token_logs WHERE turn_id = child.id),
            'seconds', round(extract(epoch FROM coalesce(child.finished_at, now()) - child.started_at)::numeric, 3),
            'task', (SELECT content FROM public.messages WHERE turn_id = child.id AND seq = 0),
            'result', (SELECT content FROM public.messages WHERE turn_id = child.id AND role = 'assistant' ORDER BY seq DESC LIMIT 1)
        ) ORDER BY child.id) FROM below JOIN public.turns AS child USING (id)
    ),
    'model_calls', (
        SELECT jsonb_agg(jsonb_build_object(
            'at', round(extract(epoch FROM call.created_at - turn.started_at)::numeric, 3), 'purpose', call.purpose,
            'model', call.model, 'input_tokens', call.input_tokens, 'cached_tokens', call.cached_tokens,
            'output_tokens', call.output_tokens, 'dollars', call.cost_estimate, 'is_estimated', call.is_estimated
        ) ORDER BY call.id) FROM public.token_logs AS call WHERE call.turn_id = turn.id
    ),
    -- One call of unknown price makes the sum unknown.
    'dollars', (
        SELECT CASE WHEN bool_and(cost_estimate IS NOT NULL) THEN sum(cost_estimate) END
        FROM public.token_logs WHERE turn_id = turn.id
    ),
    'confirmations', (
        SELECT jsonb_agg(jsonb_build_object(
            'id', question.id, 'tool', question.tool, 'reason', question.reason, 'status', question.status,
            'asked_in', question.turn_id, 'answered_in', question.answered_turn_id, 'expires_at', question.expires_at,
            'question', question.question
        ) ORDER BY question.id)
        FROM public.confirmations AS question WHERE question.turn_id = turn.id OR question.answered_turn_id = turn.id
    ),
    'files', (
        SELECT jsonb_agg(jsonb_build_object(
            'id', file.id, 'filename', file.filename, 'mime_type', file.mime_type, 'bytes', file.size_bytes, 'status', file.status
        ) ORDER BY file.id) FROM public.file_records AS file WHERE file.turn_id = turn.id
    ),
    'delivery', (
        SELECT jsonb_agg(jsonb_build_object(
            'id', reply.id, 'adapter', reply.adapter, 'status', reply.status, 'attempts', reply.attempts,
            'delivered_at', reply.delivered_at, 'message', reply.platform_message_id, 'error', reply.error,
            'seconds_after_end', round(extract(epoch FROM reply.delivered_at - turn.finished_at)::numeric, 3),
            'content', reply.content
        ) ORDER BY reply.id) FROM public.outbox AS reply WHERE reply.turn_id = turn.id
    )
)
FROM turn
$$;
COMMENT ON FUNCTION public.parley_explain_turn IS 'Everything that is known about a turn, as JSON; NULL when there is no such turn.';
