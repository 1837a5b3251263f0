-- name: store_file
UPDATE file_records SET status = :status, mime_type = :mime_type, size_bytes = :size, sha256 = :sha256 WHERE id = :id;

-- name: drop_pending_files
UPDATE file_records SET status = 'failed', size_bytes = 0 WHERE turn_id = :turn_id AND status = 'pending' RETURNING id;

-- name: draw_file_ids
SELECT nextval('file_records_id_seq') AS id FROM generate_series(1, :count);

-- name: list_images
SELECT file_records.id, named.turn_id, file_records.minio_key AS key, file_records.filename, file_records.sha256
FROM unnest(CAST(:ids AS bigint[]), CAST(:turn_ids AS bigint[])) AS named (id, turn_id)
JOIN file_records ON file_records.id = named.id AND (file_records.turn_id = named.turn_id OR EXISTS (
    -- Asked again on the page: the copy of the message names the files of the first one.
    SELECT FROM inbox WHERE inbox.turn_id = named.turn_id AND inbox.again_of = file_records.turn_id
))
WHERE file_records.status = 'stored'
  AND file_records.mime_type IN ('image/png', 'image/jpeg', 'image/webp', 'image/gif')
ORDER BY file_records.id;

-- name: list_files_of_turn
SELECT id, filename, mime_type, size_bytes, status FROM file_records WHERE turn_id = :turn_id ORDER BY id LIMIT :count;

-- name: add_transcripts
-- Only while the attempt runs the turn, and the message is as it was read: it may have been deleted on its platform.
WITH rewritten AS (
    UPDATE messages SET content = :content, token_count = CAST(:tokens AS integer)
    WHERE turn_id = :turn_id AND role = 'user' AND content = :before
      AND EXISTS (SELECT FROM turns WHERE id = :turn_id AND attempt = :attempt AND status = 'running')
    RETURNING id
)
UPDATE turn_events SET payload = payload || jsonb_build_object('content', CAST(:content AS text))
WHERE turn_id = :turn_id AND name = 'user_message' AND EXISTS (SELECT FROM rewritten)
RETURNING turn_id;

-- name: find_message_replied_to
-- In this order: what a person wrote to the agent, what is left of it in the transcript, an answer of the agent's, and
-- what others wrote before they spoke to the agent. Rows of the inbox and the outbox go after some time.
SELECT found.*, EXISTS (SELECT FROM forgotten_turns WHERE forgotten_turns.turn_id = found.turn_id) AS is_forgotten
FROM (
    SELECT 1 AS place, turn_id, platform_username AS speaker, content, platform_user_id = :account AS is_own,
           false AS is_from_bot
    FROM inbox WHERE platform = :platform AND platform_event_id = :event_id AND place_key = :place_key
    UNION ALL
    SELECT 2, turn_id, speaker, content, user_id = :user_id, false FROM messages
    WHERE conversation_id = :conversation_id AND role = 'user'
      AND platform_message_id = regexp_replace(:event_id, '^.*:', '')
    UNION ALL
    SELECT 3, turns.id, NULL, answer.content, false, true
    FROM turns LEFT JOIN outbox ON outbox.turn_id = turns.id CROSS JOIN LATERAL (
        SELECT content FROM messages WHERE messages.turn_id = turns.id AND role = 'assistant' ORDER BY seq DESC LIMIT 1
    ) AS answer
    WHERE turns.conversation_id = :conversation_id AND turns.parent_turn_id IS NULL
      AND regexp_replace(:event_id, '^.*:', '') IN (turns.live_message_id, outbox.platform_message_id)
    UNION ALL
    SELECT 4, inbox.turn_id, quoted ->> 'speaker', quoted ->> 'text', false, false
    FROM inbox, jsonb_array_elements(platform_context -> 'earlier') AS quoted
    WHERE platform = :platform AND place_key = :place_key AND (platform_context -> 'earlier') IS NOT NULL
      AND (platform_context -> 'earlier')
          @> jsonb_build_array(jsonb_build_object('message_id', CAST(:event_id AS text)))
      AND quoted ->> 'message_id' = :event_id
) AS found ORDER BY place LIMIT 1;

-- name: move_window
UPDATE conversations SET window_turn_id = :begins WHERE id = :conversation_id;

-- name: request_summary
SELECT parley_ask_for_summary(:conversation_id);

-- name: add_files
INSERT INTO file_records (id, user_id, conversation_id, turn_id, filename, minio_key, mime_type, size_bytes, author)
SELECT id, user_id, conversation_id, turn_id, filename, minio_key, mime_type, size_bytes, author
FROM jsonb_populate_recordset(CAST(NULL AS file_records), CAST(:files AS jsonb));

-- name: list_stored_files
SELECT id, minio_key, status FROM file_records WHERE turn_id = :turn_id ORDER BY id LIMIT :count;
