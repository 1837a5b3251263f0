-- name: supersede_memory
SELECT parley_supersede_memory(:old, :new);

-- name: claim_turns
-- The turn first, as whoever erases it does: else each would wait for what the other holds.
SELECT turn_id FROM unremembered_turns JOIN turns ON turns.id = turn_id
ORDER BY turn_id LIMIT :limit
FOR KEY SHARE OF turns SKIP LOCKED FOR UPDATE OF unremembered_turns SKIP LOCKED;  -- noqa: PRS

-- name: list_messages
-- A message that is being deleted or edited at this moment is waited for; one that is deleted later is found by its id.
SELECT turn_id, platform_event_id AS message_id, content, sent_at, edited_at FROM inbox
WHERE turn_id = ANY(:turn_ids) AND adapter <> ALL(:agents) AND due_job IS NULL ORDER BY turn_id, sent_at, id FOR SHARE;

-- name: list_turns
SELECT turns.id, turns.user_id, turns.status, turns.finished_at, conversation_id, conversations.platform,
       platform_server_id AS server, platform_channel_id AS channel, platform_thread_id AS thread, is_direct,
       (SELECT speaker FROM messages WHERE messages.turn_id = turns.id AND seq = 0) AS speaker,
       (SELECT content FROM messages WHERE messages.turn_id = turns.id AND role = 'assistant'
        ORDER BY seq DESC LIMIT 1) AS answer,
       (SELECT content FROM messages WHERE messages.turn_id = turns.id AND seq = 0) AS content,
       ARRAY(SELECT files.id FROM file_records AS files WHERE files.turn_id = turns.id ORDER BY files.id) AS file_ids,
       ARRAY(SELECT filename FROM file_records AS files WHERE files.turn_id = turns.id ORDER BY files.id) AS filenames,
       ARRAY(SELECT DISTINCT tool_name FROM messages
             WHERE messages.turn_id = turns.id AND role = 'tool_result') AS tools,
       coalesce((SELECT CAST(reasons ->> 'reads_untrusted' AS boolean) FROM turn_contexts
                 WHERE turn_contexts.turn_id = turns.id), true) AS reads_untrusted
FROM turns JOIN conversations ON conversations.id = turns.conversation_id
WHERE turns.id = ANY(:turn_ids) AND turns.user_id IS NOT NULL AND turns.status <> 'running'
  AND turns.id <@ coalesce(conversations.shown_turns, '{(,)}')
  AND NOT EXISTS (SELECT FROM forgotten_turns WHERE forgotten_turns.turn_id = turns.id)
ORDER BY turns.id;

-- name: end_turns
DELETE FROM unremembered_turns WHERE turn_id = ANY(:turn_ids);

-- name: forget_messages
SELECT parley_forget_messages(:turn_ids, :platform, :message_ids);

-- name: queue_turns
INSERT INTO unremembered_turns (turn_id)
SELECT id FROM turns WHERE id = ANY(:turn_ids) AND status <> 'running' AND parent_turn_id IS NULL
ON CONFLICT DO NOTHING;
