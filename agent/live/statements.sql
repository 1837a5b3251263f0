-- name: store_live_message
UPDATE turns SET live_message_id = :message_id WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
RETURNING id;

-- name: find_live_message
SELECT live_message_id FROM turns WHERE id = :turn_id;

-- name: notify
-- Of a job any one worker is told.
SELECT pg_notify(channel, CASE WHEN channel = :jobs THEN coalesce(
    (SELECT CAST(id AS text) FROM workers WHERE notes.note <> '' ORDER BY random() LIMIT 1), ''
) ELSE note END)
FROM unnest(CAST(:channels AS text[]), CAST(:notes AS text[])) AS notes (channel, note);

-- name: request_stop
WITH stopped AS (
    UPDATE turns SET stop_requested = true FROM conversations
    WHERE conversations.id = turns.conversation_id AND turns.status = 'running' AND conversations.platform = :platform
      AND conversations.platform_server_id IS NOT DISTINCT FROM :server AND conversations.platform_channel_id = :channel
      AND conversations.platform_thread_id IS NOT DISTINCT FROM :thread
      AND (CAST(:user_id AS bigint) IS NULL OR turns.user_id = :user_id)
    RETURNING turns.id
)
SELECT pg_notify(:stops, CAST(id AS text)) FROM stopped;

-- name: list_events_after
SELECT event.turn_id, event.seq, event.name, event.payload
FROM turn_events AS event JOIN inbox ON inbox.turn_id = event.turn_id
WHERE inbox.id = :inbox_id AND event.seq > :after AND event.seq <= :last ORDER BY event.seq;

-- name: list_stopped
-- A note alone stops no turn, because every role may send one; the turn of an erased person has no row any more.
SELECT wanted.turn_id, turns.id IS NOT NULL AS is_stored
FROM unnest(CAST(:turn_ids AS bigint[])) AS wanted (turn_id) LEFT JOIN turns ON turns.id = wanted.turn_id
WHERE coalesce(stop_requested, wanted.turn_id <= pg_sequence_last_value(pg_get_serial_sequence('turns', 'id')::regclass));

-- name: report_loss
SELECT replayed_at, answers, messages, cost, lost_bytes FROM parley_report_loss(
    :history_id, CAST(:turn_ids AS bigint[]), CAST(:costs AS numeric[]), CAST(:message_ids AS bigint[]),
    CAST(:seen_lsn AS pg_lsn), CAST(:seen_at AS timestamptz)
);
