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
    v_args jsonb;
    v_job_id bigint;
BEGIN
    SELECT place_key, platform, platform_user_id, platform_server_id INTO v_message
    FROM public.inbox WHERE id = p_inbox_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- What follows sees what those who held the lock before have committed.
    PERFORM pg_advisory_xact_lock(hashtextextended('inbox ' || v_message.place_key, 0));
    IF EXISTS (SELECT FROM public.procrastinate_jobs WHERE lock = v_message.place_key AND status = 'doing') THEN
        RETURN;
    END IF;
    SELECT -count(*) INTO v_priority FROM (
        SELECT FROM public.inbox
        WHERE platform = v_message.platform AND platform_user_id = v_message.platform_user_id
          AND status IN ('waiting', 'claimed') AND id < p_inbox_id
        LIMIT 1000
    ) AS earlier;
    v_args := jsonb_strip_nulls(jsonb_build_object(
        'inbox_id', p_inbox_id, 'person', v_message.platform || ' ' || v_message.platform_user_id,
        'server', v_message.platform || ' ' || v_message.platform_server_id
    ));
    IF EXISTS (SELECT FROM public.procrastinate_jobs WHERE lock = v_message.place_key AND status = 'todo') THEN
        UPDATE public.procrastinate_jobs SET priority = v_priority, args = v_args
        WHERE lock = v_message.place_key AND status = 'todo' AND priority < v_priority
        RETURNING id INTO v_job_id;
        IF FOUND THEN
            PERFORM pg_notify(
                'procrastinate_queue_v1#turns', json_build_object('type', 'job_inserted', 'job_id', v_job_id)::text
            );
        END IF;
        RETURN;
    END IF;
    INSERT INTO public.procrastinate_jobs (queue_name, task_name, priority, lock, args)
    VALUES ('turns', 'take_turn', v_priority, v_message.place_key, v_args);
END
$$;
COMMENT ON FUNCTION public.parley_queue_turn IS
    'Makes sure that the next turn of a message''s place will be taken: one job for each place.';
