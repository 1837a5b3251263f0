-- Takes up to `p_limit` jobs from the queue for a worker: the highest priority first, then the oldest, never one whose
-- lock another running job holds. It skips jobs of `p_persons` and of `p_servers`, which have as many turns in work as
-- they may, and takes at most one job of each person: the worker then counts anew.
--
-- Returns with each job the person and the server of its message; both are NULL for a job without a message.
--
-- Only the first 1,000 jobs are looked at, so that a call stays quick however long the queue is. A person's further
-- messages have lower priorities, so that a flood stands behind everybody else's jobs.
CREATE FUNCTION public.parley_take_jobs_v1(
    p_queue text, p_worker_id bigint, p_limit integer, p_persons text[], p_servers text[]
)
RETURNS TABLE (job public.procrastinate_jobs, person text, server text)
LANGUAGE plpgsql AS $$
DECLARE
    v_waiting record;
    v_count integer := 0;
BEGIN
    FOR v_waiting IN
        SELECT jobs.id, jobs.lock, sender.person, sender.server
        FROM public.procrastinate_jobs AS jobs
        LEFT JOIN LATERAL (
            SELECT inbox.platform || ' ' || inbox.platform_user_id AS person,
                   inbox.platform || ' ' || inbox.platform_server_id AS server
            FROM public.inbox WHERE inbox.id = (jobs.args ->> 'inbox_id')::bigint
            -- Keeps the planner from joining the whole inbox for the few jobs that are taken.
            OFFSET 0
        ) AS sender ON true
        WHERE jobs.status = 'todo' AND jobs.queue_name = p_queue
          AND (jobs.scheduled_at IS NULL OR jobs.scheduled_at <= now())
        ORDER BY jobs.priority DESC, jobs.id LIMIT 1000
    LOOP
        CONTINUE WHEN v_waiting.person = ANY(p_persons) OR v_waiting.server = ANY(p_servers)
            OR EXISTS (SELECT FROM public.procrastinate_jobs WHERE lock = v_waiting.lock AND status = 'doing');
        BEGIN
            UPDATE public.procrastinate_jobs AS jobs SET status = 'doing', worker_id = p_worker_id
            WHERE jobs.id = (
                SELECT id FROM public.procrastinate_jobs WHERE id = v_waiting.id AND status = 'todo'
                FOR UPDATE SKIP LOCKED
            )
            RETURNING jobs.* INTO job;
            CONTINUE WHEN NOT FOUND;
        EXCEPTION WHEN unique_violation THEN
            -- Another worker has taken a job with the same lock in the same moment.
            CONTINUE;
        END;
        person := v_waiting.person;
        server := v_waiting.server;
        RETURN NEXT;
        v_count := v_count + 1;
        EXIT WHEN v_count = p_limit;
        p_persons := p_persons || person;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_take_jobs_v1 IS
    'Takes waiting jobs for a worker, skipping persons and servers that have as many turns in work as they may.';
