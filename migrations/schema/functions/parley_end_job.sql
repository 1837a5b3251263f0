-- Ends a job, and lets the next turn of its place wait if the place has open messages left. Returns whether it has; NULL
-- when the worker does not have the job any more.
--
-- The next job names the message whose sender has the fewest open ones before it, of those that wait longest.
--
-- Who stores a message locks the job of its place, also one that is in work: the end waits for them, and then sees it.
CREATE FUNCTION public.parley_end_job(p_job_id bigint)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_place text;
    v_next bigint;
BEGIN
    DELETE FROM public.jobs WHERE jobs.id = p_job_id RETURNING jobs.place_key INTO v_place;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- Mostly nothing is left, and the order of what is need not be asked for.
    IF NOT EXISTS (SELECT FROM public.inbox WHERE place_key = v_place AND status IN ('waiting', 'claimed')) THEN
        RETURN false;
    END IF;
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
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM public.parley_queue_turn(v_next);
    RETURN true;
END
$$;
COMMENT ON FUNCTION public.parley_end_job IS
    'Ends a job, and lets the next turn of its place wait if the place has open messages left.';
