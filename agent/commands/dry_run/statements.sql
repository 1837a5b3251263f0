-- name: list_newest_turns
-- Those that have an answer and a person, and that the person has not asked to forget.
SELECT id FROM turns
WHERE persona_id = :persona_id AND status = 'answered' AND parent_turn_id IS NULL AND user_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM forgotten_turns WHERE forgotten_turns.turn_id = turns.id)
ORDER BY id DESC LIMIT :count;

-- name: list_answered_turns
-- Those of these turns that can be answered again, as above.
SELECT id FROM turns
WHERE id = ANY(CAST(:ids AS bigint[])) AND status = 'answered' AND parent_turn_id IS NULL AND user_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM forgotten_turns WHERE forgotten_turns.turn_id = turns.id)
ORDER BY id;

-- name: read_turn
SELECT turns.id, turns.started_at, turns.iterations, turns.model, turns.user_id,
       coalesce(context.reasons, '{}') AS reasons, users.display_name, users.time_zone, users.week_start,
       place.id AS conversation_id, place.platform,
       place.platform_server_id, place.platform_channel_id, place.platform_thread_id, place.is_direct, place.summary,
       place.summarized_turn_id, place.window_turn_id,
       (SELECT agents FROM parley_list_agents()) AS agents,
       (SELECT sum(output_tokens) FROM token_logs WHERE turn_id = turns.id) AS output_tokens, rights.*
FROM turns JOIN conversations AS place ON place.id = turns.conversation_id JOIN users ON users.id = turns.user_id
LEFT JOIN turn_contexts AS context ON context.turn_id = turns.id CROSS JOIN parley_rights(turns.id) AS rights
WHERE turns.id = :turn_id;

-- name: admit_call
-- No turn and no conversation pays for it.
SELECT refusal IS NULL AS admitted, refusal, CAST(NULL AS bigint) AS reservation_id FROM parley_refusing_limit(
    parley_limits_of(ROW(CAST(:user_id AS bigint), NULL, NULL, NULL, false)), CAST(:cost AS numeric)
) AS refusal;

-- name: charge_call
SELECT parley_charge(ROW(CAST(:user_id AS bigint), NULL, NULL, NULL, false), :calls);

-- name: find_version
-- Of the persona with this name; without a version, or where it has none of this number, no fields.
SELECT persona.id, version.fields FROM personas AS persona
LEFT JOIN persona_versions AS version
    ON version.persona_id = persona.id AND version.version = CAST(:version AS integer)
WHERE persona.name = :name;

-- name: take
-- Or one that this worker took, or answered, and has not heard so: it plays one after the other.
UPDATE dry_runs SET worker_id = :worker_id
WHERE id = (
    SELECT id FROM dry_runs
    WHERE coalesce(worker_id, :worker_id) = :worker_id AND reply IS NULL AND read_at > now() - interval '10 seconds'
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING id, request;

-- name: has_reader
-- Whether its command still waits for the reply: it was neither interrupted nor killed.
SELECT EXISTS (SELECT FROM dry_runs WHERE id = :id AND read_at > now() - interval '10 seconds');

-- name: reply
UPDATE dry_runs SET reply = :reply WHERE id = :id;

-- name: remove_left
-- Those whose commands were killed.
DELETE FROM dry_runs WHERE created_at < now() - interval '1 hour' RETURNING id;
