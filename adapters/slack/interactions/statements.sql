-- name: list_running_threads
SELECT conversations.platform_thread_id FROM turns
JOIN conversations ON conversations.id = turns.conversation_id
JOIN user_platform_links AS link ON link.user_id = turns.user_id
WHERE turns.status = 'running' AND turns.parent_turn_id IS NULL AND conversations.platform = 'slack'
  AND conversations.platform_server_id = :server AND conversations.platform_channel_id = :channel
  AND link.platform = 'slack' AND link.platform_user_id = :account
ORDER BY turns.id DESC LIMIT 1;
