-- Stores a reply in the outbox, and tells its id and whether the caller is to send it: behind an earlier reply of its
-- adapter in the place, and while the platform is down, it waits for the sweeper.
--
-- p_reply: {adapter, platform, server, channel, thread, place_key, is_direct, reply_to, content, files, choices, status,
-- lease, error}. With an `error` it was tried before. A noted or pending one is not sent within `lease` seconds.
CREATE FUNCTION public.parley_add_reply(p_turn_id bigint, p_reply jsonb, p_live_message_id text DEFAULT NULL)
RETURNS TABLE (reply_id bigint, is_claimed boolean)
LANGUAGE sql AS $$
    INSERT INTO public.outbox (turn_id, adapter, platform, platform_server_id, platform_channel_id,
                               platform_thread_id, place_key, is_direct, reply_to, live_message_id, content,
                               files, choices, status, attempts, error, tried_at, claimed_until, delivered_at)
    SELECT p_turn_id, reply.adapter, reply.platform, reply.server, reply.channel, reply.thread, reply.place_key,
           reply.is_direct, reply.reply_to, p_live_message_id, reply.content, coalesce(reply.files, '[]'),
           coalesce(reply.choices, '[]'),
           CASE WHEN reply.status = 'claimed' AND has_to_wait THEN 'pending' ELSE coalesce(reply.status, 'pending') END,
           CASE WHEN reply.error IS NULL THEN 0 ELSE 1 END, reply.error, CASE WHEN reply.error IS NOT NULL THEN now() END,
           CASE WHEN reply.status IN ('noted', 'pending') OR NOT has_to_wait THEN now() + reply.lease * interval '1 second' END,
           CASE WHEN reply.status = 'delivered' THEN now() END
    FROM jsonb_to_record(p_reply) AS reply
        (adapter text, platform text, server text, channel text, thread text, is_direct boolean, reply_to text,
         content text, files jsonb, choices jsonb, status text, lease double precision, place_key text, error text)
    CROSS JOIN LATERAL (SELECT EXISTS (
        SELECT FROM public.outbox AS earlier
        WHERE earlier.place_key = reply.place_key AND earlier.adapter = reply.adapter
          AND earlier.status IN ('pending', 'claimed')
    ) OR EXISTS (
        SELECT FROM public.delivery_outages AS outage
        WHERE outage.adapter = reply.adapter AND outage.scope IN ('', reply.server) AND outage.is_down
    ) AS has_to_wait) AS line
    RETURNING id, outbox.status = 'claimed';
$$;
COMMENT ON FUNCTION public.parley_add_reply IS 'Stores a reply, and tells whether the caller is to send it.';
