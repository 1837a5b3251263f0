-- Ends jobs, and queues the next turn of each of their places that has open messages left. Returns of each job whether
-- its place has one.
--
-- The next job names the message whose sender has the fewest open ones before it, of those that wait longest.
CREATE FUNCTION public.parley_finish_jobs(p_ids bigint[], p_statuses text[], p_deleted boolean[])
RETURNS TABLE (job_id bigint, is_awaited boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_ending record;
    v_next bigint;
BEGIN
    -- In the order of the places, as for those who store messages.
    FOR v_ending IN
        SELECT ending.id, ending.status, ending.is_deleted, jobs.lock, jobs.queue_name, jobs.task_name
        FROM unnest(p_ids, p_statuses, p_deleted) AS ending (id, status, is_deleted)
        LEFT JOIN public.procrastinate_jobs AS jobs ON jobs.id = ending.id
        ORDER BY jobs.lock
    LOOP
        job_id := v_ending.id;
        is_awaited := false;
        IF v_ending.lock IS NOT NULL THEN
            PERFORM pg_advisory_xact_lock(hashtextextended('inbox ' || v_ending.lock, 0));
        END IF;
        PERFORM public.procrastinate_finish_job_v1(
            v_ending.id, v_ending.status::public.procrastinate_job_status, v_ending.is_deleted
        );
        -- After an error the sweeper looks after the place, with a pause.
        IF v_ending.task_name = 'take_turn' AND v_ending.status = 'succeeded' THEN
            SELECT oldest.id INTO v_next
            FROM (
                SELECT DISTINCT ON (platform, platform_user_id) id, platform, platform_user_id
                FROM (
                    SELECT id, platform, platform_user_id FROM public.inbox
                    WHERE place_key = v_ending.lock AND status IN ('waiting', 'claimed')
                    ORDER BY turn_id IS NULL, sent_at, id LIMIT 100
                ) AS waiting
                ORDER BY platform, platform_user_id, id
                LIMIT 20
            ) AS oldest
            ORDER BY (
                SELECT count(*) FROM (
                    SELECT FROM public.inbox AS earlier
                    WHERE earlier.platform = oldest.platform AND earlier.platform_user_id = oldest.platform_user_id
                      AND earlier.status IN ('waiting', 'claimed') AND earlier.id < oldest.id
                    LIMIT 1000
                ) AS counted
            ), oldest.id
            LIMIT 1;
            IF v_next IS NOT NULL THEN
                PERFORM public.parley_queue_turn(v_next);
                is_awaited := true;
            END IF;
        ELSIF v_ending.lock IS NOT NULL THEN
            is_awaited := EXISTS (
                SELECT FROM public.procrastinate_jobs AS jobs WHERE jobs.lock = v_ending.lock AND jobs.status = 'todo'
            );
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_finish_jobs IS
    'Ends jobs, and queues the next turn of each of their places that has open messages left.';
