-- name: requeue_lost
-- Queues a job for places with open messages but no live job, which can be lost with its connection. Clocks may be set.
-- It looks at places, not at messages: the first one of each is found by the index.
WITH RECURSIVE first AS (
    (SELECT place_key, id, created_at FROM inbox WHERE status IN ('waiting', 'claimed')
     ORDER BY place_key, turn_id IS NULL, sent_at, id LIMIT 1)
    UNION ALL
    SELECT later.* FROM first CROSS JOIN LATERAL (
        SELECT place_key, id, created_at FROM inbox
        WHERE status IN ('waiting', 'claimed') AND inbox.place_key > first.place_key
        ORDER BY place_key, turn_id IS NULL, sent_at, id LIMIT 1
    ) AS later
)
SELECT place_key, parley_queue_turn(id) FROM first
WHERE abs(extract(epoch FROM now() - created_at)) > 10 AND NOT EXISTS (
    SELECT FROM jobs WHERE jobs.place_key = first.place_key
)
ORDER BY place_key;

-- name: take_jobs
SELECT id, inbox_id, person, server, deaths, priority >= :suspect AS is_suspect FROM parley_take_jobs(
    p_worker_id => :worker_id, p_limit => :limit, p_persons => CAST(:persons AS jsonb), p_servers => CAST(:servers AS jsonb),
    p_per_person => :per_person, p_per_server => :per_server, p_after => :after, p_revision => :revision
);

-- name: finish_jobs
SELECT job_id, has_next FROM parley_finish_jobs(CAST(:ids AS bigint[]));

-- name: release_jobs
-- Locked in the order of the places, as by those who store messages.
UPDATE jobs SET id = DEFAULT, worker_id = NULL, is_alone = false
WHERE id IN (SELECT id FROM jobs WHERE worker_id = :worker_id ORDER BY place_key FOR UPDATE);

-- name: give_up
WITH blocking AS (
    SELECT id, turn_id FROM inbox
    WHERE place_key = (
        SELECT place_key FROM inbox WHERE id = :inbox_id AND EXISTS (SELECT FROM jobs WHERE id = :job_id)
    ) AND status IN ('waiting', 'claimed')
    ORDER BY turn_id IS NULL, sent_at, id LIMIT 1
), ended AS (
    UPDATE turns SET status = 'failed', finished = false, error = 'parked', cause = :cause, finished_at = now()
    FROM blocking WHERE turns.id = blocking.turn_id AND turns.status = 'running'
), failed AS (
    UPDATE inbox SET status = 'failed' FROM blocking
    WHERE inbox.id = blocking.id OR inbox.turn_id = blocking.turn_id RETURNING inbox.*
), reply AS (
    SELECT parley_add_reply(turn_id, jsonb_build_object(
        'adapter', adapter, 'platform', platform, 'server', platform_server_id, 'channel', platform_channel_id,
        'thread', platform_thread_id, 'place_key', place_key, 'is_direct', is_direct,
        'reply_to', coalesce(platform_message_id, platform_event_id), 'content', CAST(:sentence AS text)
    )) FROM (
        SELECT * FROM failed
        WHERE adapter <> ALL(:read_by_caller) AND NOT EXISTS (SELECT FROM outbox WHERE outbox.turn_id = failed.turn_id)
        ORDER BY id DESC LIMIT 1
    ) AS latest
), inbox_ids AS (
    SELECT json_agg(id) AS ids FROM failed HAVING count(*) > 0
)
SELECT pg_notify('parley_turns', json_build_object('turn', 0, 'inbox', ids, 'end', true)::text),
       (SELECT count(*) FROM reply)
FROM inbox_ids;

-- name: claim_replies
-- A reply that an admin sends again begins anew, but its turn ended when it did.
SELECT claimed.*, delivery.*, extract(epoch FROM now() - least(
    claimed.created_at, (SELECT finished_at FROM turns WHERE id = claimed.turn_id)
)) AS age
FROM parley_claim_replies(:adapters, :limit, :lease, :hours) AS claimed
LEFT JOIN LATERAL parley_find_delivery(claimed.turn_id) AS delivery ON true
ORDER BY claimed.id;

-- name: renew_claim
-- `attempts` counts the claims of a reply: with an older number, another process has claimed it since.
UPDATE outbox SET claimed_until = now() + :lease * interval '1 second'
WHERE id = :id AND status = 'claimed' AND attempts = :attempts
RETURNING id;

-- name: mark_delivered
SELECT job_id, has_next FROM parley_mark_delivered(
    CAST(:ids AS bigint[]), CAST(:message_ids AS text[]), CAST(:job_ids AS bigint[])
);

-- name: fail_reply
SELECT parley_fail_reply(:id, :attempts, :error, :is_final, :wait, :hours, :scope);

-- name: list_first_messages
SELECT turn_id, min(id) AS inbox_id FROM inbox WHERE turn_id = ANY(CAST(:turn_ids AS bigint[])) GROUP BY turn_id;

-- name: register_worker
INSERT INTO workers DEFAULT VALUES RETURNING id;

-- name: list_heartbeats
-- A worker's last heartbeat is of a time to come when the database's clock was set back since.
SELECT id, last_heartbeat, last_heartbeat NOT BETWEEN
       now() - :stale * interval '1 second' AND now() + :stale * interval '1 second' AS is_old
FROM workers;

-- name: remove_worker
DELETE FROM workers WHERE id = :worker_id;

-- name: remove_workers
DELETE FROM workers WHERE id = ANY(CAST(:dead AS bigint[]));

-- name: requeue_stale
-- A job whose worker is dead, or which its worker no longer runs, waits again, under a new id: a worker that resumes late
-- can't end it while another worker runs it. The suspects of before this statement count: those that end with it, too.
UPDATE jobs SET id = DEFAULT, worker_id = NULL, is_alone = false,
    priority = CASE WHEN is_strict THEN :strict WHEN is_suspect THEN greatest(priority, :suspect) ELSE priority END,
    deaths = deaths - CAST(is_strict AS int)
FROM (
    SELECT job.id AS stale_id, job.worker_id <> ALL(CAST(:own AS bigint[])) AS is_suspect,
           job.priority >= :suspect AND job.is_alone AND EXISTS (
               SELECT FROM jobs AS other
               WHERE other.worker_id IS NOT NULL AND other.priority >= :suspect AND other.is_alone AND other.id <> job.id
           ) AS is_strict
    FROM jobs AS job
    WHERE job.worker_id = ANY(CAST(:dead AS bigint[])) OR job.id = ANY(CAST(:lost AS bigint[]))
       OR job.worker_id IS NOT NULL AND NOT EXISTS (SELECT FROM workers WHERE workers.id = job.worker_id)
    FOR UPDATE OF job SKIP LOCKED
) AS stale
WHERE jobs.id = stale_id;

-- name: list_own_jobs
SELECT id FROM jobs WHERE worker_id = ANY(CAST(:workers AS bigint[]));

-- name: probe
-- What a turn begins with, and the right to take and end its job; no row is read.
SELECT FROM inbox, users, conversations, turns, messages, outbox, jobs LIMIT 0 FOR UPDATE OF inbox, turns, jobs;

-- name: renew_heartbeat
-- What a sweep does need not be durable: it is done again.
UPDATE workers SET last_heartbeat = now() WHERE id = :id RETURNING id, set_config('synchronous_commit', 'off', true);

-- name: look
-- The periodic tasks for which there is work, and `jobs`.
SELECT array_remove(ARRAY[
    CASE WHEN EXISTS (SELECT FROM jobs WHERE worker_id IS NULL) THEN 'jobs' END,
    CASE WHEN EXISTS (SELECT FROM outbox WHERE status IN ('pending', 'claimed'))
           OR EXISTS (
               SELECT FROM outbox WHERE status = 'noted'
                 AND (claimed_until <= now() OR claimed_until > now() + interval '10 minutes')
           ) THEN 'outbox sweeper' END,
    CASE WHEN EXISTS (
        SELECT FROM scheduled_jobs WHERE status = 'active' AND next_due_at <= now() AND check_tool IS NULL
    ) THEN 'scheduled jobs' END,
    CASE WHEN EXISTS (
        SELECT FROM scheduled_jobs WHERE status = 'active' AND next_due_at <= now() AND check_tool IS NOT NULL
    ) THEN 'checks of jobs' END,
    CASE WHEN EXISTS (SELECT FROM turns WHERE status = 'running' AND parent_turn_id IS NOT NULL) THEN 'orphan sweeper' END,
    CASE WHEN EXISTS (SELECT FROM budget_reservations WHERE expires_at <= now()) THEN 'expired reservations' END,
    CASE WHEN EXISTS (
        SELECT FROM dry_runs WHERE reply IS NULL AND read_at > now() - interval '10 seconds'
    ) THEN 'dry runs' END,
    CASE WHEN EXISTS (SELECT FROM unremembered_turns) THEN 'turn memories' END,
    CASE WHEN EXISTS (SELECT FROM parley_unindexed_memories(1)) THEN 'memory index' END
], NULL) AS tasks;

-- name: lock_suspects
SELECT pg_advisory_xact_lock(hashtext('parley suspects'));

-- name: start_alone
WITH ours AS (SELECT id, priority FROM jobs WHERE id = :job_id),
started AS (
    UPDATE jobs SET deaths = deaths + 1, is_alone = true FROM ours
    WHERE jobs.id = ours.id AND NOT EXISTS (
        SELECT FROM jobs AS other
        WHERE other.worker_id IS NOT NULL AND other.is_alone AND other.id <> ours.id AND other.priority >= :suspect
          AND (other.priority = :strict OR ours.priority = :strict)
    )
    RETURNING jobs.id
)
SELECT EXISTS (SELECT FROM started) AS has_started FROM ours;

-- name: list_answered_together
-- This message and the others that the same turn answers.
SELECT other.id FROM inbox JOIN inbox AS other ON other.id = inbox.id OR other.turn_id = inbox.turn_id
WHERE inbox.id = :inbox_id;

-- name: cancel_message
-- A message that still waits for a turn is withdrawn; otherwise its turn is stopped.
WITH withdrawn AS (
    UPDATE inbox SET status = 'cancelled' WHERE id = :inbox_id AND status = 'waiting' RETURNING id
), stopped AS (
    UPDATE turns SET stop_requested = true FROM inbox
    WHERE inbox.id = :inbox_id AND inbox.status = 'claimed' AND turns.id = inbox.turn_id AND turns.status = 'running'
    RETURNING turns.id
)
SELECT 'withdrawn' AS outcome, pg_notify('parley_turns', :note) FROM withdrawn
UNION ALL SELECT 'stopped', pg_notify('parley_stops', CAST(id AS text)) FROM stopped;

-- name: change_message
-- By the adapters `others` it is changed as they read it: each bot that sees a message is told of its edit. One that is
-- deleted stays so: an edit may be told late.
WITH changed AS (
    UPDATE inbox SET content = :content, edited_at = clock_timestamp()
    WHERE platform = :platform AND platform_event_id = :message_id AND content NOT IN (:content, :deleted)
      AND adapter <> ALL(CAST(:others AS text[]))
    RETURNING id, turn_id
)
SELECT changed.turn_id FROM inbox LEFT JOIN changed ON changed.id = inbox.id
WHERE platform = :platform AND platform_event_id = :message_id;

-- name: find_answer
SELECT adapter, platform_message_id, platform_channel_id, platform_thread_id, choices,
       status IN ('pending', 'claimed') AS is_on_its_way
FROM outbox WHERE turn_id = :turn_id;

-- name: find_messages
-- These messages, the clicks that had their answers made again, and the messages that quote them.
WITH RECURSIVE own AS (
    SELECT id, turn_id FROM inbox WHERE platform = :platform AND platform_event_id = ANY(:message_ids)
    UNION
    SELECT inbox.id, inbox.turn_id FROM own JOIN inbox ON inbox.again_of = own.turn_id
)
SELECT id FROM own
UNION
SELECT id FROM inbox WHERE platform = :platform AND (platform_context -> 'earlier') IS NOT NULL
    AND (platform_context -> 'earlier') @> ANY(ARRAY(
    SELECT jsonb_build_array(jsonb_build_object('message_id', each)) FROM unnest(CAST(:message_ids AS text[])) AS each
));

-- name: lock_waiting
SELECT id FROM inbox WHERE id = ANY(:ids) AND status = 'waiting' ORDER BY id FOR UPDATE;

-- name: lock_turns
SELECT id FROM turns WHERE id IN (SELECT turn_id FROM inbox WHERE inbox.id = ANY(:ids)) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_messages
-- With the clicks that had the answer made again, each with a copy of the text, and the clicks below those answers.
WITH RECURSIVE own AS (
    SELECT id, turn_id FROM inbox WHERE platform = :platform AND platform_event_id = ANY(:message_ids)
    UNION
    SELECT inbox.id, inbox.turn_id FROM own JOIN inbox ON inbox.again_of = own.turn_id
)
SELECT id, turn_id, content FROM inbox WHERE id IN (SELECT id FROM own) ORDER BY id FOR UPDATE;

-- name: list_expired_turns
-- Rows of the inbox go after some time.
SELECT turn_id FROM parley_turns_of_messages(:platform, :message_ids) AS turn_id;

-- name: list_files_of_expired_turn
SELECT file_records.id, minio_key FROM file_records JOIN messages USING (turn_id)
WHERE turn_id = :turn_id AND role = 'user' AND position('(file_id ' || file_records.id || ',' IN messages.content) > 0;

-- name: lock_quoting_messages
SELECT id, turn_id, status, platform_context FROM inbox
WHERE platform = :platform AND (platform_context -> 'earlier') IS NOT NULL
    AND (platform_context -> 'earlier') @> ANY(ARRAY(
    SELECT jsonb_build_array(jsonb_build_object('message_id', each)) FROM unnest(CAST(:message_ids AS text[])) AS each
)) ORDER BY id FOR UPDATE;

-- name: remove_messages
UPDATE inbox SET content = :deleted, attachments = '[]', platform_context = '{}',
    status = CASE WHEN status = 'waiting' THEN 'cancelled' ELSE status END
WHERE id = ANY(:ids);

-- name: stop_turns
-- A turn stops whose messages are all deleted; its reply is withdrawn when it is delivered.
WITH stopped AS (
    UPDATE turns SET stop_requested = true
    WHERE id = ANY(:turn_ids) AND status = 'running'
      AND NOT EXISTS (SELECT FROM inbox WHERE turn_id = turns.id AND content <> :deleted)
    RETURNING id
)
SELECT pg_notify('parley_stops', CAST(id AS text)) FROM stopped;

-- name: store_context
UPDATE inbox SET platform_context = CAST(:platform_context AS jsonb) WHERE id = :id;

-- name: list_messages
SELECT id, content, attachments,
       CASE WHEN platform_context ? 'earlier' AND EXISTS (SELECT FROM forgotten_turns)
            THEN parley_without_forgotten(platform, platform_context) ELSE platform_context END AS platform_context
FROM inbox
WHERE turn_id = :turn_id ORDER BY sent_at, id;

-- name: list_files_said
SELECT content, file_records.id AS file_id, filename FROM messages JOIN file_records USING (turn_id)
WHERE turn_id = :turn_id AND role = 'user' ORDER BY file_records.id;

-- name: list_files
SELECT id, minio_key FROM file_records WHERE turn_id = :turn_id ORDER BY id LIMIT :count;

-- name: remove_files
DELETE FROM file_records WHERE id = ANY(:ids);

-- name: rebuild_message
-- The journal's first step contains the text of all messages of the turn; it is rebuilt without the deleted ones.
WITH retold AS (
    UPDATE messages SET content = :content WHERE turn_id = :turn_id AND role = 'user'
)
UPDATE turn_events SET payload = payload || jsonb_build_object('content', CAST(:content AS text))
WHERE turn_id = :turn_id AND name = 'user_message';

-- name: remove_repeated_text
-- Arguments and results are stored as JSON text, so the deleted text (`said`) is searched there in its JSON-escaped form
-- (`repeated`). The turn that runs a confirmed call has its arguments, too.
WITH own AS (
    SELECT CAST(:turn_id AS bigint) AS id UNION SELECT answered_turn_id FROM confirmations WHERE turn_id = :turn_id
), forgotten AS (
    UPDATE messages SET content = replace(content, :repeated, :deleted),
        confirmation = CASE WHEN jsonb_exists(confirmation, 'arguments') THEN confirmation || jsonb_build_object(
            'arguments', replace(confirmation ->> 'arguments', :repeated, :deleted),
            'text', replace(confirmation ->> 'text', :said, :deleted)
        ) ELSE confirmation END
    WHERE turn_id IN (SELECT id FROM own) AND role IN ('tool_call', 'tool_result')
      AND (position(:repeated IN content) > 0 OR jsonb_exists(confirmation, 'arguments'))
), unasked AS (
    UPDATE confirmations SET arguments = redacted.arguments, question = replace(question, :said, :deleted),
        arguments_hash = encode(sha256(convert_to(redacted.arguments, 'UTF8')), 'hex')
    FROM (
        SELECT id, replace(arguments, :repeated, :deleted) AS arguments FROM confirmations WHERE turn_id = :turn_id
    ) AS redacted
    WHERE redacted.id = confirmations.id
)
UPDATE turn_events SET payload = CAST(replace(CAST(payload AS text), :repeated, :deleted) AS jsonb)
WHERE turn_id IN (SELECT id FROM own)
  AND name IN ('tool_call', 'tool_result', 'delegation_request', 'delegation_response')
  AND position(:repeated IN CAST(payload AS text)) > 0;

-- name: accept
SELECT * FROM parley_accept(CAST(:events AS jsonb), CAST(:is_announced AS boolean));

-- name: accept_and_take
SELECT * FROM parley_accept_and_take(
    p_events => CAST(:events AS jsonb), p_worker_id => :worker_id, p_limit => :limit,
    p_persons => CAST(:persons AS jsonb), p_servers => CAST(:servers AS jsonb), p_per_person => :per_person,
    p_per_server => :per_server, p_after => :after, p_revision => :revision, p_suspect => :suspect,
    p_messages => :messages
);

-- name: flush_message
-- Its own commit, and all before it, are flushed because it writes something. No row: a crash has lost the message, and
-- its id may be another one's.
SELECT id, pg_logical_emit_message(true, 'parley', '') FROM inbox WHERE id = :inbox_id AND created_at = :stored_at;

-- name: withdraw_questions
SELECT parley_withdraw_questions(CAST(:turn_ids AS bigint[]));
