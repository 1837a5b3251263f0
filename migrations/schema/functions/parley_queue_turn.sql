-- Makes sure that the next turn of a place will be taken: a place has one job, which waits or is in work. While it is in
-- work nothing is done here, because its end looks for what is left (`parley_finish_jobs`). So the queue is as long
-- as there are places with open messages, however many messages they have.
--
-- The job counts for the sender of the message `p_inbox_id`, and the more open messages that person has sent before, the
-- later it is taken: everybody's first message comes before anybody's second one. A message that is to be answered
-- earlier than the one that the job names takes its place.
--
-- Who calls this for several places does so in the order of their keys.
CREATE FUNCTION public.parley_queue_turn(p_inbox_id bigint)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_message record;
    v_priority integer;
BEGIN
    SELECT place_key, platform, platform_user_id, platform_server_id INTO v_message
    FROM public.inbox WHERE id = p_inbox_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- What follows sees what those who held the lock before have committed.
    PERFORM pg_advisory_xact_lock(hashtextextended('inbox ' || v_message.place_key, 0));
    SELECT -count(*) INTO v_priority FROM (
        SELECT FROM public.inbox
        WHERE platform = v_message.platform AND platform_user_id = v_message.platform_user_id
          AND status IN ('waiting', 'claimed') AND id < p_inbox_id
        LIMIT 1000
    ) AS earlier;
    INSERT INTO public.jobs (place_key, inbox_id, person, server, priority)
    VALUES (
        v_message.place_key, p_inbox_id, v_message.platform || ' ' || v_message.platform_user_id,
        coalesce(v_message.platform || ' ' || v_message.platform_server_id, ''), v_priority
    )
    ON CONFLICT (place_key) DO UPDATE
        SET priority = excluded.priority, inbox_id = excluded.inbox_id, person = excluded.person, server = excluded.server
        WHERE jobs.worker_id IS NULL AND jobs.priority < excluded.priority;
END
$$;
COMMENT ON FUNCTION public.parley_queue_turn IS
    'Makes sure that the next turn of a message''s place will be taken: one job for each place.';
