-- Gives a worker up to `p_limit` waiting jobs: the highest priority first, then the oldest. `p_persons` and `p_servers` say
-- how many turns of each are in work, {name: count}; nobody gets more than `p_per_person` or `p_per_server`.
--
-- A program whose revision of the tables is older than these work with gets an error instead of jobs, as does a worker
-- that others hold for dead. Fewer jobs than `p_limit` means that no other one can be taken now.
--
-- A call stays quick however long the queue is. A place has one job (`parley_queue_turn`). The first 200 are looked
-- at in their order; when they are not enough, because a crowd that may not have more turns stands before the others,
-- the servers are looked at one by one, beginning behind `p_after`: those that are full cost one step each. Of a server
-- the first 1,000 jobs count: a person's further messages have lower priorities, so that a flood stands behind
-- everybody else's.
--
-- Its commit need not be durable: what a crash of the server takes back waits for a worker again.
CREATE FUNCTION public.parley_take_jobs(
    p_worker_id bigint, p_limit integer, p_persons jsonb, p_servers jsonb,
    p_per_person integer, p_per_server integer, p_after text DEFAULT '', p_revision text DEFAULT NULL
)
RETURNS SETOF public.jobs
LANGUAGE plpgsql AS $$
DECLARE
    v_waiting record;
    v_job public.jobs;
    v_count integer := 0;
    v_oldest text;
    v_is_alive boolean;
BEGIN
    SELECT (SELECT c.oldest_revision FROM public.schema_compatibility AS c),
           EXISTS (SELECT FROM public.workers WHERE id = p_worker_id)
    INTO v_oldest, v_is_alive;
    IF p_revision < v_oldest THEN
        RAISE EXCEPTION 'The tables work with programs from revision % on, this one has %; install the newer release.',
            v_oldest, p_revision;
    END IF;
    IF p_limit < 1 THEN
        RETURN;
    END IF;
    IF NOT v_is_alive THEN
        RAISE EXCEPTION 'Worker % was held for dead, as it told nobody that it lives; it begins again.', p_worker_id;
    END IF;
    FOR v_waiting IN
        SELECT first.* FROM (
            SELECT jobs.id, jobs.person, jobs.server FROM public.jobs
            WHERE jobs.worker_id IS NULL ORDER BY jobs.priority DESC, jobs.id LIMIT 200
        ) AS first
        UNION ALL
        SELECT later.* FROM (
            WITH RECURSIVE names AS (
                SELECT p_after AS server, false AS is_around WHERE EXISTS (
                    SELECT FROM public.jobs WHERE jobs.worker_id IS NULL ORDER BY jobs.priority DESC, jobs.id OFFSET 199 LIMIT 1
                )
                UNION ALL
                SELECT coalesce(next.server, ''), names.is_around OR next.server IS NULL FROM names
                LEFT JOIN LATERAL (
                    SELECT jobs.server FROM public.jobs WHERE jobs.worker_id IS NULL AND jobs.server > names.server
                    ORDER BY jobs.server LIMIT 1
                ) AS next ON true
                WHERE NOT (names.is_around AND (next.server IS NULL OR names.server >= p_after))
            )
            SELECT jobs.* FROM names CROSS JOIN LATERAL (
                SELECT jobs.id, jobs.person, jobs.server FROM public.jobs
                WHERE jobs.worker_id IS NULL AND jobs.server = names.server
                ORDER BY jobs.priority DESC, jobs.id LIMIT 1000
            ) AS jobs
            WHERE coalesce((p_servers ->> names.server)::integer, 0) < p_per_server
        ) AS later
    LOOP
        CONTINUE WHEN coalesce((p_persons ->> v_waiting.person)::integer, 0) >= p_per_person
            OR coalesce((p_servers ->> v_waiting.server)::integer, 0) >= p_per_server;
        UPDATE public.jobs SET worker_id = p_worker_id
        WHERE jobs.id = (
            SELECT id FROM public.jobs WHERE id = v_waiting.id AND worker_id IS NULL FOR UPDATE SKIP LOCKED
        )
        RETURNING jobs.* INTO v_job;
        CONTINUE WHEN NOT FOUND;
        RETURN NEXT v_job;
        v_count := v_count + 1;
        EXIT WHEN v_count = p_limit;
        p_persons := p_persons || jsonb_build_object(
            v_job.person, coalesce((p_persons ->> v_job.person)::integer, 0) + 1
        );
        IF v_job.server <> '' THEN
            p_servers := p_servers || jsonb_build_object(
                v_job.server, coalesce((p_servers ->> v_job.server)::integer, 0) + 1
            );
        END IF;
    END LOOP;
    IF v_count > 0 THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_take_jobs IS
    'Gives waiting jobs to a worker, of persons and servers that have fewer turns in work than they may.';
