-- name: list_visible_files
SELECT id, filename, mime_type, size_bytes, author FROM parley_visible_files(:user_id, :conversation_id)
WHERE id = ANY(:ids) AND status = 'stored';

-- name: close_turn
-- The reasons stand in the statement that ends the turn, so that a turn has none more.
WITH ending AS (
    SELECT id FROM turns WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
), noted AS (
    INSERT INTO turn_contexts (turn_id, reasons)
    SELECT id, jsonb_set(CAST(:reasons AS jsonb), '{budget,limits}', parley_turn_limits(id))
    FROM ending WHERE CAST(:reasons AS jsonb) IS NOT NULL
    ON CONFLICT (turn_id) DO UPDATE SET reasons = excluded.reasons
), listed AS (
    INSERT INTO unremembered_turns (turn_id) SELECT id FROM ending WHERE CAST(:is_remembered AS boolean)
    ON CONFLICT DO NOTHING
)
SELECT ended.reply_id, ended.live_message_id, ended.is_claimed, ended.has_next, delivery.* FROM parley_close_turn(
    p_turn_id => :turn_id, p_attempt => :attempt, p_status => :status, p_finished => :finished, p_waves => :waves,
    p_error => :error, p_cause => :cause, p_steps => :steps, p_events => :events, p_calls => :calls,
    p_reply => :reply, p_question => :question, p_job_id => :job_id
) AS ended CROSS JOIN parley_find_delivery(:turn_id) AS delivery;

-- name: take_over_turn
-- A worker that was frozen does not take the turn back from the one that has its job by now.
UPDATE turns SET attempt = attempt + 1, handovers = least(handovers + :forgiven, attempt)
WHERE id = :turn_id AND status = 'running' AND EXISTS (SELECT FROM jobs WHERE jobs.id = :job_id)
RETURNING attempt, handovers, user_id, stop_requested, loop_mode;

-- name: read_last_event
SELECT coalesce(max(seq), -1) FROM turn_events WHERE turn_id = :turn_id;

-- name: change_payer
-- The identity may have been linked to another user since the last attempt: the turn is then charged to that user.
UPDATE turns SET user_id = :user_id WHERE id = :turn_id;

-- name: prepare_turn
SELECT * FROM parley_prepare_turn(:job_id, :messages);

-- name: open_turn
-- Arrays of texts: what another array is made of, the driver asks the server on each connection, which takes 15 ms.
SELECT * FROM parley_open_turn(
    p_job_id => :job_id, p_inbox_ids => CAST(CAST(:inbox_ids AS text[]) AS bigint[]), p_turn_id => :turn_id,
    p_conversation_id => :conversation_id, p_user_id => :user_id, p_persona_id => :persona_id,
    p_loop_mode => :loop_mode, p_steps => :steps, p_events => :events, p_tokens => :tokens,
    p_cost => CAST(:cost AS numeric), p_seconds => :seconds, p_persona_version_id => :persona_version_id,
    p_changed_at => CAST(CAST(:changed_at AS text[]) AS timestamptz[])
);

-- name: hand_over_turn
UPDATE turns SET handovers = handovers + 1 WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
RETURNING id;
