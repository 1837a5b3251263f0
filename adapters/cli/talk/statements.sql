-- name: find_last_conversation
-- Of a terminal's person; the one of `parley chat` has no thread.
SELECT platform_thread_id AS thread FROM conversations
WHERE platform = 'terminal' AND platform_server_id IS NULL AND platform_channel_id = :channel
ORDER BY last_active_at DESC, id DESC LIMIT 1;

-- name: get_persona
SELECT admin.get_persona(:name) AS id;

-- name: check_model
SELECT parley_check_model(:model);
