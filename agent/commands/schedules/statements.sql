-- name: claim_checks
UPDATE scheduled_jobs SET claimed_until = now() + :seconds * interval '1 second'
WHERE id IN (
    SELECT id FROM scheduled_jobs
    WHERE status = 'active' AND next_due_at <= now() AND check_tool IS NOT NULL
      -- No claim lasts that long: the database's clock was set back since.
      AND (coalesce(claimed_until, now()) <= now() OR claimed_until > now() + 2 * :seconds * interval '1 second')
    ORDER BY next_due_at, id LIMIT :limit FOR UPDATE SKIP LOCKED
)
RETURNING id;

-- name: move_check_on
UPDATE scheduled_jobs SET last_due_at = next_due_at, runs = runs + 1, next_due_at = :next_due_at, error = :error,
    claimed_until = NULL
WHERE id = :id;

-- name: list_due_jobs
SELECT id FROM scheduled_jobs
WHERE status = 'active' AND next_due_at <= now() AND check_tool IS NULL
ORDER BY next_due_at, id LIMIT :limit;

-- name: lock_job
-- With the person's account and the roles that it had on the server when it last wrote there.
SELECT job.*, now() AS now, place.platform, place.platform_server_id, place.platform_channel_id,
       place.platform_thread_id, place.is_direct, link.platform_username, link.id IS NOT NULL AS has_account,
       (SELECT roles FROM member_roles
        WHERE member_roles.platform = place.platform AND member_roles.server = place.platform_server_id
          AND member_roles.platform_user_id = job.platform_user_id) AS role_ids
FROM scheduled_jobs AS job JOIN conversations AS place ON place.id = job.conversation_id
LEFT JOIN user_platform_links AS link ON link.user_id = job.user_id AND link.platform = place.platform
    AND link.platform_user_id = job.platform_user_id
WHERE job.id = :id AND job.status = 'active' AND job.next_due_at <= now()
FOR UPDATE OF job SKIP LOCKED;

-- name: move_job_on
UPDATE scheduled_jobs SET last_due_at = next_due_at, runs = runs + 1, next_due_at = CAST(:next_due_at AS timestamptz),
    error = NULL, claimed_until = NULL,
    status = CASE WHEN CAST(:next_due_at AS timestamptz) IS NULL THEN 'finished' ELSE 'active' END,
    ended_at = CASE WHEN CAST(:next_due_at AS timestamptz) IS NULL THEN now() END
WHERE id = :id;

-- name: pause_job
UPDATE scheduled_jobs SET status = 'paused', error = :error, claimed_until = NULL WHERE id = :id;
