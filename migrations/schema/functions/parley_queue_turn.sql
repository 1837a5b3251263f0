-- Makes sure that the next turn of a place will be taken: a place has one job, which waits or is in work. While it is in
-- work it is only locked here, because its end looks for what is left (`parley_end_job`). So the queue is as long
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
BEGIN
    INSERT INTO public.jobs (place_key, inbox_id, person, server, priority)
    SELECT message.place_key, p_inbox_id, message.platform || ' ' || message.platform_user_id,
           coalesce(message.platform || ' ' || message.platform_server_id, ''), -(SELECT count(*) FROM (
               SELECT FROM public.inbox AS earlier
               WHERE earlier.platform = message.platform AND earlier.platform_user_id = message.platform_user_id
                 AND earlier.status IN ('waiting', 'claimed') AND earlier.id < p_inbox_id
               LIMIT 1000
           ) AS counted)
    FROM public.inbox AS message WHERE message.id = p_inbox_id
    ON CONFLICT (place_key) DO UPDATE
        SET priority = excluded.priority, inbox_id = excluded.inbox_id, person = excluded.person, server = excluded.server
        WHERE jobs.worker_id IS NULL AND jobs.priority < excluded.priority;
END
$$;
COMMENT ON FUNCTION public.parley_queue_turn IS
    'Makes sure that the next turn of a message''s place will be taken: one job for each place.';
