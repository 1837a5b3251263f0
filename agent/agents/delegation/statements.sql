-- name: find_child
SELECT id, status FROM turns WHERE parent_turn_id = :turn_id AND parent_call_id = :call_id;

-- name: begin_child
INSERT INTO turns (conversation_id, user_id, persona_id, persona_version_id, parent_turn_id, parent_call_id, agent,
                   loop_mode)
SELECT conversation_id, user_id, :persona_id,
       (SELECT id FROM persona_versions WHERE persona_id = :persona_id ORDER BY version DESC LIMIT 1),
       id, :call_id, :agent,
       coalesce((SELECT loop_mode FROM personas WHERE id = :persona_id), 'native')
FROM turns
WHERE id = :turn_id AND attempt = :attempt AND status = 'running' FOR SHARE
RETURNING id;

-- name: take_over_child
UPDATE turns SET attempt = turns.attempt + 1 FROM turns AS parent
WHERE turns.id = :id AND turns.status = 'running'
  AND parent.id = turns.parent_turn_id AND parent.attempt = :attempt AND parent.status = 'running'
RETURNING turns.attempt;

-- name: end_child
UPDATE turns SET status = 'cancelled', finished = false, error = :error, finished_at = now()
WHERE id = :turn_id AND attempt = :attempt AND status = 'running' AND stop_requested;

-- name: read_outcome
WITH RECURSIVE below AS (
    SELECT id, iterations FROM turns WHERE id = :id
    UNION ALL SELECT turns.id, turns.iterations FROM turns JOIN below ON turns.parent_turn_id = below.id
)
SELECT agent, error, finished, (SELECT sum(iterations) FROM below) AS iterations,
    (SELECT json_build_array(sum(input_tokens), sum(cached_tokens), sum(output_tokens),
                             CASE WHEN count(*) = count(cost_estimate) THEN sum(cost_estimate) END)
     FROM token_logs WHERE turn_id IN (SELECT id FROM below)) AS usage
FROM turns WHERE id = :id;

-- name: end_orphans
-- Nothing reads the result of a child turn whose parent has ended: its worker died, or the parent was parked.
UPDATE turns SET status = 'cancelled', finished = false, error = 'orphaned', finished_at = now() FROM turns AS parent
WHERE turns.status = 'running' AND turns.parent_turn_id IS NOT NULL
  AND parent.id = turns.parent_turn_id AND parent.status <> 'running'
RETURNING turns.id;

-- name: find_agent
SELECT id, name, persona_id, url, headers, required_permission, env, last_error
FROM agents WHERE name = :name AND is_enabled;

-- name: find_last_event
SELECT max(seq) FROM turn_events WHERE turn_id = :turn_id;
