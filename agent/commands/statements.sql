-- name: read_own_permission
SELECT parley_permission(permission_level, permission_until, permission_after) FROM users WHERE id = :user_id;

-- name: begin_afresh
SELECT id FROM parley_begin_afresh(:platform, :server, :channel, :thread);

-- name: pause_memory
SELECT parley_pause_memory(:user_id, :paused);

-- name: pause_memory_here
SELECT parley_pause_memory_here(:platform, :server, :channel, :thread, :paused);

-- name: explain_answer
-- A person's own turns: all of them where nobody else reads along, else those of this conversation. With an id that one.
SELECT parley_explain_turn(turns.id) AS story
FROM turns JOIN conversations AS place ON place.id = turns.conversation_id
WHERE turns.user_id = :user_id AND turns.parent_turn_id IS NULL AND turns.status <> 'running'
  AND (CAST(:turn_id AS bigint) IS NULL OR turns.id = :turn_id)
  AND ((:is_direct AND CAST(:turn_id AS bigint) IS NOT NULL) OR (
      place.platform = :platform AND place.platform_server_id IS NOT DISTINCT FROM CAST(:server AS text)
      AND place.platform_channel_id = :channel AND place.platform_thread_id IS NOT DISTINCT FROM CAST(:thread AS text)
  ))
ORDER BY turns.id DESC LIMIT 1;

-- name: count_attempt
SELECT parley_count_attempt(:door, :visitor, :most, :seconds);

-- name: list_accounts
SELECT platform, platform_user_id, platform_username FROM user_platform_links
WHERE user_id = :user_id ORDER BY id LIMIT :limit;

-- name: lock_persona
SELECT platform, platform_server_id, platform_channel_id, is_default FROM personas WHERE name = :name FOR UPDATE;

-- name: list_persona_names
SELECT name FROM personas ORDER BY name LIMIT :limit;

-- name: bind_persona
SELECT parley_bind_persona(:name, :platform, :server, :channel);
