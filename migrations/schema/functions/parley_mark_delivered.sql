-- Records that a platform has taken these replies. If it was down, it is back: what waited for it may go at once, but
-- for what the platform itself wants to see later.
CREATE FUNCTION public.parley_mark_delivered(p_ids bigint[], p_message_ids text[])
RETURNS void
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
END
$$;
COMMENT ON FUNCTION public.parley_mark_delivered IS
    'Records that a platform has taken replies, and so that it is not down.';
