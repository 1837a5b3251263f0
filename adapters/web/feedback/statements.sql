-- name: vote
SELECT parley_vote(turns.id, CAST(:score AS smallint), :comment) FROM turns JOIN conversations ON conversations.id = conversation_id
WHERE turns.id = :turn_id AND parent_turn_id IS NULL AND turns.status <> 'running' AND platform = 'web'
  AND platform_server_id IS NULL AND platform_thread_id IS NULL AND platform_channel_id = :channel AND turns.user_id IS NOT NULL;
