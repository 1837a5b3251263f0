-- name: use_link
-- Returns no row for a link that was used before. Those that have expired are refused without it.
WITH expired AS (
    DELETE FROM used_links WHERE expires_at < now() - interval '1 hour'
)
INSERT INTO used_links (nonce, expires_at) VALUES (:nonce, to_timestamp(:until))
ON CONFLICT (nonce) DO NOTHING RETURNING id;

-- name: list_chats
SELECT substr(platform_channel_id, length(:prefix) + 1) AS chat, last_active_at,
    (SELECT content FROM messages WHERE messages.conversation_id = conversations.id AND role = 'user'
     ORDER BY turn_id, seq LIMIT 1) AS title
FROM conversations
WHERE platform = :platform AND platform_server_id IS NULL AND platform_thread_id IS NULL
  AND starts_with(platform_channel_id, :prefix)
ORDER BY last_active_at DESC LIMIT 100;

-- name: list_events
WITH shown AS (
    SELECT turns.id FROM turns JOIN conversations ON conversations.id = turns.conversation_id
    WHERE platform = :platform AND platform_server_id IS NULL AND platform_thread_id IS NULL
      AND platform_channel_id = :channel AND parent_turn_id IS NULL
    ORDER BY turns.id DESC LIMIT :limit
)
SELECT turn_id, seq, name, payload FROM turn_events JOIN shown ON shown.id = turn_id ORDER BY turn_id, seq;

-- name: list_due_messages
-- The messages of scheduled jobs: those that are open, and those whose turn is newer than the one shown last.
SELECT id FROM inbox
WHERE place_key = :place_key AND due_job IS NOT NULL AND status IN ('waiting', 'claimed')
UNION
SELECT inbox.id FROM conversations
JOIN turns ON turns.conversation_id = conversations.id JOIN inbox ON inbox.turn_id = turns.id
WHERE conversations.platform = :platform AND conversations.platform_server_id IS NULL
  AND conversations.platform_thread_id IS NULL AND conversations.platform_channel_id = :channel
  AND turns.id > :after AND due_job IS NOT NULL
ORDER BY id;

-- name: is_memory_paused
SELECT is_memory_paused FROM users WHERE id = :user_id;
