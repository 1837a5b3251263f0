-- Takes up to `p_limit` jobs from the queue for a worker: the highest priority first, then the oldest, never one whose
-- lock another running job holds. `p_persons` and `p_servers` say how many turns of each are in work, {name: count};
-- nobody gets more than `p_per_person` or `p_per_server`.
--
-- A program whose revision of the tables is older than these work with gets an error instead of jobs.
--
-- Returns with each job the person and the server of its message; both are NULL for a job without a message. Fewer jobs
-- than `p_limit` means that no other one can be taken now.
--
-- A call stays quick however long the queue is. A place has one job (`parley_queue_turn`). The first 200 are looked
-- at in their order; when they are not enough, because a crowd that may not have more turns stands before the others,
-- the servers are looked at one by one, beginning behind `p_after`: those that are full cost one step each. Of a server
-- the first 1,000 jobs count: a person's further messages have lower priorities, so that a flood stands behind
-- everybody else's.
CREATE FUNCTION public.parley_take_jobs(
    p_queue text, p_worker_id bigint, p_limit integer, p_persons jsonb, p_servers jsonb,
    p_per_person integer, p_per_server integer, p_after text DEFAULT '', p_revision text DEFAULT NULL
)
RETURNS TABLE (job public.procrastinate_jobs, person text, server text)
LANGUAGE plpgsql AS $$
DECLARE
    v_waiting record;
    v_count integer := 0;
    v_running integer;
    v_oldest text;
BEGIN
    SELECT c.oldest_revision INTO v_oldest FROM public.schema_compatibility AS c;
    IF p_revision < v_oldest THEN
        RAISE EXCEPTION 'The tables work with programs from revision % on, this one has %; install the newer release.',
            v_oldest, p_revision;
    END IF;
    IF p_limit < 1 THEN
        RETURN;
    END IF;
    FOR v_waiting IN
        SELECT first.* FROM (
            SELECT jobs.id, jobs.lock, jobs.args ->> 'person' AS person, jobs.args ->> 'server' AS server
            FROM public.procrastinate_jobs AS jobs
            WHERE jobs.status = 'todo' AND jobs.queue_name = p_queue
              AND (jobs.scheduled_at IS NULL OR jobs.scheduled_at <= now())
            ORDER BY jobs.priority DESC, jobs.id LIMIT 200
        ) AS first
        UNION ALL
        SELECT later.* FROM (
            WITH RECURSIVE names AS (
                SELECT p_after AS server, false AS is_around
                UNION ALL
                SELECT coalesce(next.server, ''), names.is_around OR next.server IS NULL FROM names
                LEFT JOIN LATERAL (
                    SELECT coalesce(jobs.args ->> 'server', '') AS server FROM public.procrastinate_jobs AS jobs
                    WHERE jobs.status = 'todo' AND jobs.queue_name = 'turns'
                      AND coalesce(jobs.args ->> 'server', '') > names.server
                    ORDER BY coalesce(jobs.args ->> 'server', '') LIMIT 1
                ) AS next ON true
                WHERE NOT (names.is_around AND (next.server IS NULL OR names.server >= p_after))
            )
            SELECT jobs.* FROM names CROSS JOIN LATERAL (
                SELECT jobs.id, jobs.lock, jobs.args ->> 'person' AS person, jobs.args ->> 'server' AS server
                FROM public.procrastinate_jobs AS jobs
                WHERE jobs.status = 'todo' AND jobs.queue_name = 'turns'
                  AND coalesce(jobs.args ->> 'server', '') = names.server
                  AND (jobs.scheduled_at IS NULL OR jobs.scheduled_at <= now())
                ORDER BY jobs.priority DESC, jobs.id LIMIT 1000
            ) AS jobs
            WHERE p_queue = 'turns' AND coalesce((p_servers ->> names.server)::integer, 0) < p_per_server
        ) AS later
    LOOP
        CONTINUE WHEN coalesce((p_persons ->> v_waiting.person)::integer, 0) >= p_per_person
            OR coalesce((p_servers ->> v_waiting.server)::integer, 0) >= p_per_server
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
        IF person IS NOT NULL THEN
            v_running := coalesce((p_persons ->> person)::integer, 0) + 1;
            p_persons := p_persons || jsonb_build_object(person, v_running);
        END IF;
        IF server IS NOT NULL THEN
            v_running := coalesce((p_servers ->> server)::integer, 0) + 1;
            p_servers := p_servers || jsonb_build_object(server, v_running);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_take_jobs IS
    'Takes waiting jobs for a worker, of persons and servers that have fewer turns in work than they may.';
