-- Records that a platform has taken these replies. If it was down, it is back: what waited for it may go at once, but
-- for what the platform itself wants to see later. Then ends the jobs p_job_ids as `parley_finish_jobs` does.
--
-- With jobs the commit is not flushed: a crash of the server takes all of it back, and whoever sends a reply again asks the
-- platform whether it has arrived, as after the death of a sender.
CREATE FUNCTION public.parley_mark_delivered(p_ids bigint[], p_message_ids text[], p_job_ids bigint[] DEFAULT '{}')
RETURNS TABLE (job_id bigint, has_next boolean)
LANGUAGE plpgsql AS $$
BEGIN
    WITH sent AS (
        UPDATE public.outbox SET status = 'delivered', delivered_at = now(), claimed_until = NULL,
            platform_message_id = taken.message_id
        FROM unnest(p_ids, p_message_ids) AS taken (id, message_id)
        WHERE outbox.id = taken.id AND status <> 'delivered'
        RETURNING outbox.adapter, outbox.platform_server_id
    ), ended AS (
        DELETE FROM public.delivery_outages AS outage USING sent
        WHERE outage.adapter = sent.adapter AND outage.scope IN ('', sent.platform_server_id)
        RETURNING outage.adapter, outage.scope, outage.is_down
    )
    UPDATE public.outbox AS waiting SET claimed_until = NULL FROM ended
    WHERE ended.is_down AND waiting.status = 'pending' AND waiting.adapter = ended.adapter
      AND ended.scope IN ('', waiting.platform_server_id)
      AND waiting.claimed_until <= waiting.tried_at + interval '1 minute';
    RETURN QUERY SELECT ended.job_id, ended.has_next FROM public.parley_finish_jobs(p_job_ids) AS ended;
END
$$;
COMMENT ON FUNCTION public.parley_mark_delivered IS
    'Records that a platform has taken replies, and so that it is not down; ends the jobs of their turns.';
