-- Ends jobs, and queues the next turn of each of their places that has open messages left. Returns of each job that its
-- worker still had whether its place has a next turn.
--
-- The next job names the message whose sender has the fewest open ones before it, of those that wait longest.
--
-- Its commit need not be durable: a job that a crash of the server brings back finds no open message.
CREATE FUNCTION public.parley_finish_jobs(p_ids bigint[])
RETURNS TABLE (job_id bigint, has_next boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_place text;
    v_next bigint;
BEGIN
    -- In the order of the places, as for those who store messages.
    FOR job_id, v_place IN SELECT jobs.id, jobs.place_key FROM public.jobs WHERE jobs.id = ANY (p_ids) ORDER BY 2 LOOP
        PERFORM pg_advisory_xact_lock(hashtextextended('inbox ' || v_place, 0));
        DELETE FROM public.jobs WHERE jobs.id = job_id;
        CONTINUE WHEN NOT FOUND;
        SELECT oldest.id INTO v_next
        FROM (
            SELECT DISTINCT ON (platform, platform_user_id) id, platform, platform_user_id
            FROM (
                SELECT id, platform, platform_user_id FROM public.inbox
                WHERE place_key = v_place AND status IN ('waiting', 'claimed')
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
        has_next := FOUND;
        IF has_next THEN
            PERFORM public.parley_queue_turn(v_next);
        END IF;
        RETURN NEXT;
    END LOOP;
    PERFORM set_config('synchronous_commit', 'off', true);
END
$$;
COMMENT ON FUNCTION public.parley_finish_jobs IS
    'Ends jobs, and queues the next turn of each of their places that has open messages left.';
