-- name: list_jobs
-- What a job says is its person's own; it is not read here.
SELECT job.id, job.status, job.action, job.kind, job.every, job.unit, job.cron, job.time_zone, job.check_tool, job.next_due_at,
       job.last_due_at, job.runs, job.error, person.name, place.platform, place.platform_server_id AS server,
       place.platform_channel_id AS channel, place.is_direct, job.next_due_at < now() - interval '5 minutes' AS is_late
FROM (
    SELECT * FROM scheduled_jobs WHERE id < :before AND (CAST(:status AS text) IS NULL OR status = :status)
    ORDER BY id DESC LIMIT :rows
) AS job
LEFT JOIN admin.users AS person ON person.id = job.user_id
LEFT JOIN conversations AS place ON place.id = job.conversation_id
ORDER BY job.id DESC;

-- name: count_jobs
SELECT count(*) FILTER (WHERE status = 'active') AS active, count(*) FILTER (WHERE status = 'paused') AS paused,
       count(*) FILTER (WHERE status = 'active' AND next_due_at < now()) AS due
FROM scheduled_jobs WHERE status IN ('active', 'paused');
