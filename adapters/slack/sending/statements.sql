-- name: list_clicks
SELECT platform_event_id, content FROM inbox
WHERE platform = :platform AND platform_event_id IN (:choice, :again) ORDER BY id LIMIT 1;

-- name: list_streams
SELECT coalesce(extract(epoch FROM turns.finished_at), 0) AS ended, ARRAY(
    SELECT other.live_message_id FROM turns AS other
    WHERE other.conversation_id = turns.conversation_id AND other.id <> turns.id AND other.live_message_id IS NOT NULL
    ORDER BY other.id DESC LIMIT 100
) AS others FROM turns WHERE turns.id = :turn_id;

-- name: list_unanswered
SELECT DISTINCT platform_server_id AS team, platform_channel_id AS channel, platform_thread_id AS thread
FROM confirmations AS asked JOIN conversations ON conversations.id = asked.conversation_id
WHERE platform = 'slack' AND platform_thread_id IS NOT NULL AND asked.status IN ('pending', 'expired')
  AND asked.expires_at > :since AND asked.expires_at <= :now
  AND NOT EXISTS (
      SELECT FROM confirmations AS other
      WHERE other.conversation_id = asked.conversation_id AND other.status = 'pending' AND other.expires_at > :now
  )
  AND NOT EXISTS (SELECT FROM turns WHERE turns.conversation_id = asked.conversation_id AND turns.status = 'running');
