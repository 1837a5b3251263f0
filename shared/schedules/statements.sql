-- name: find_jobs
-- Those of a person that are visible in a place: in a direct conversation all, elsewhere those of the server.
SELECT id, action, content, kind, time_zone, starts_at, every, unit, cron, status, next_due_at, check_tool, expires_at,
       error, author
FROM scheduled_jobs
WHERE user_id = :user_id AND id = coalesce(CAST(:id AS bigint), id) AND status = ANY(:statuses) AND EXISTS (
    SELECT FROM conversations AS origin WHERE origin.id = scheduled_jobs.conversation_id AND (:is_direct OR (
        NOT origin.is_direct AND origin.platform = :platform
        AND coalesce(origin.platform_server_id, origin.platform_channel_id) = :server
    ))
)
ORDER BY status, next_due_at, id LIMIT :limit;

-- name: lock_job
SELECT id FROM scheduled_jobs WHERE id = :id AND user_id = :user_id FOR UPDATE;

-- name: cancel_job
UPDATE scheduled_jobs SET status = 'cancelled', next_due_at = NULL, ended_at = now() WHERE id = :id;

-- name: pause_job
UPDATE scheduled_jobs SET status = 'paused', error = NULL WHERE id = :id;

-- name: resume_job
UPDATE scheduled_jobs SET status = 'active', next_due_at = :next_due_at, ended_at = NULL, error = NULL WHERE id = :id;

-- name: lock_jobs_of_user
-- Of one person, one after the other: so that the limit holds.
SELECT pg_advisory_xact_lock(hashtextextended('scheduled jobs', :user_id));

-- name: count_jobs
SELECT count(*) FROM scheduled_jobs WHERE user_id = :user_id AND status IN ('active', 'paused');

-- name: find_origin
-- By which adapter the person wrote here last: in this turn, in the one that delegated it, else in the newest one.
WITH RECURSIVE path AS (
    SELECT id, parent_turn_id FROM turns WHERE id = :turn_id
    UNION ALL SELECT turns.id, turns.parent_turn_id FROM turns JOIN path ON turns.id = path.parent_turn_id
), newest AS (
    SELECT max(id) AS id FROM turns
    WHERE conversation_id = :conversation_id AND user_id = :user_id AND parent_turn_id IS NULL
)
SELECT adapter, inbox.platform_user_id
FROM inbox JOIN user_platform_links AS link USING (platform, platform_user_id)
WHERE link.user_id = :user_id AND (turn_id IN (SELECT id FROM path) OR turn_id = (SELECT id FROM newest))
ORDER BY turn_id IN (SELECT id FROM path) DESC, inbox.id DESC LIMIT 1;

-- name: add_job
INSERT INTO scheduled_jobs (user_id, conversation_id, adapter, platform_user_id, module, action, content, author, requires,
                            next_due_at, kind, time_zone, starts_at, every, unit, cron, check_tool, check_arguments,
                            condition, expires_at)
VALUES (:user_id, :conversation_id, :adapter, :platform_user_id, :module, :action, :content, :author, :requires,
        :next_due_at, :kind, :time_zone, :starts_at, :every, :unit, :cron, :check_tool, :check_arguments,
        :condition, :expires_at)
RETURNING id;
