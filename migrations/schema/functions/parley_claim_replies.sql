-- Claims up to `p_limit` replies that wait for their delivery, for the adapters `p_adapters`; the sender keeps the claim
-- alive, and another process may claim the reply `p_lease` seconds after it has died.
--
-- It looks at places, not at replies: of each place only the first open reply of an adapter can be claimed, so that a later
-- one never overtakes it; of several bots there none waits for another, which may be gone for good. Of a platform that is known to be down, one reply is claimed at a time, in one process: it asks whether
-- the platform is back. The place that was tried least often asks next, so that one broken place can't hide the rest.
--
-- A note whose lease is over is a reply from then on: the process that runs its command has died.
--
-- A reply older than `p_hours` fails. So does one whose deliveries had no end, not even a failure, for an hour: it may be
-- what kills its senders. The hour is counted from try to try, each as a minute at most, so that no time is counted in
-- which nothing ran; and after each of them the pause is as long as what was counted, up to a minute.
CREATE FUNCTION public.parley_claim_replies(
    p_adapters text[], p_limit integer, p_lease double precision, p_hours double precision
)
RETURNS SETOF public.outbox
LANGUAGE plpgsql AS $$
DECLARE
    v_lease interval := p_lease * interval '1 second';
BEGIN
    UPDATE public.outbox SET status = 'pending', claimed_until = NULL WHERE id IN (
        SELECT id FROM public.outbox
        -- Nobody holds it for longer: the clock was set back since.
        WHERE status = 'noted' AND (claimed_until <= now() OR claimed_until > now() + interval '10 minutes')
        FOR UPDATE SKIP LOCKED
    );
    RETURN QUERY
    WITH RECURSIVE first AS (
        (SELECT place_key, adapter, id FROM public.outbox WHERE status IN ('pending', 'claimed')
         ORDER BY place_key, adapter, id LIMIT 1)
        UNION ALL
        SELECT later.place_key, later.adapter, later.id FROM first CROSS JOIN LATERAL (
            SELECT place_key, adapter, id FROM public.outbox
            WHERE status IN ('pending', 'claimed') AND (outbox.place_key, outbox.adapter) > (first.place_key, first.adapter)
            ORDER BY place_key, adapter, id LIMIT 1
        ) AS later
    ), due AS MATERIALIZED (
        SELECT reply.id, reply.attempts, outage.id AS outage_id,
               row_number() OVER (PARTITION BY outage.id ORDER BY reply.attempts, reply.id) AS number
        FROM first JOIN public.outbox AS reply USING (id)
        LEFT JOIN public.delivery_outages AS outage
            ON outage.adapter = reply.adapter AND outage.scope IN ('', reply.platform_server_id) AND outage.is_down
        WHERE reply.adapter = ANY(p_adapters) AND (
            coalesce(reply.claimed_until, '-infinity') + least(60, reply.lost_seconds) * interval '1 second' <= now()
            -- While the platform is down, it says when the next one asks, unless the platform wants a longer pause.
            OR outage.id IS NOT NULL AND reply.status = 'pending'
                AND reply.claimed_until <= reply.tried_at + interval '1 minute'
            -- No lease lasts that long, and no try is of a time to come: the clock was set back since.
            OR reply.status = 'claimed' AND reply.claimed_until > now() + 2 * v_lease
            OR reply.status = 'pending' AND reply.tried_at > now() + v_lease
        )
    ), probing AS (
        -- A claimer that comes second waits here for the first one, and then finds the time moved.
        UPDATE public.delivery_outages AS outage SET next_probe_at = now() + v_lease
        WHERE outage.id IN (SELECT outage_id FROM due)
          AND (next_probe_at <= now() OR next_probe_at > now() + interval '2 minutes' + v_lease)
          AND NOT EXISTS (
              SELECT FROM public.outbox AS probe
              WHERE probe.status = 'claimed' AND probe.claimed_until BETWEEN now() AND now() + 2 * v_lease
                AND probe.adapter = outage.adapter AND outage.scope IN ('', probe.platform_server_id)
          )
        RETURNING outage.id
    ), chosen AS (
        SELECT reply.id FROM public.outbox AS reply
        WHERE reply.id IN (
            SELECT due.id FROM due LEFT JOIN probing ON probing.id = due.outage_id
            WHERE due.outage_id IS NULL OR due.number = 1 AND probing.id IS NOT NULL
            ORDER BY due.id LIMIT p_limit
        ) AND reply.status IN ('pending', 'claimed')
        FOR UPDATE SKIP LOCKED
    ), judged AS (
        SELECT reply.id, reply.attempts > 0 AND (
            reply.created_at < now() - p_hours * interval '1 hour'
            OR reply.lost_seconds >= 3600
        ) AS is_over
        FROM chosen JOIN public.outbox AS reply USING (id)
    ), claimed AS (
        UPDATE public.outbox AS reply SET
            status = CASE WHEN is_over THEN 'failed' ELSE 'claimed' END,
            error = CASE WHEN is_over THEN coalesce(error, 'no delivery of it came to an end') ELSE error END,
            attempts = attempts + 1,
            lost_seconds = lost_seconds + CASE WHEN status = 'claimed' THEN greatest(0, least(
                60, extract(epoch FROM now() - coalesce(tried_at, created_at))
            )) ELSE 0 END,
            tried_at = now(), claimed_until = CASE WHEN NOT is_over THEN now() + v_lease END
        FROM judged WHERE reply.id = judged.id
        RETURNING reply.*
    )
    SELECT * FROM claimed;
END
$$;
COMMENT ON FUNCTION public.parley_claim_replies IS
    'Claims replies for delivery: the first of each place, and one at a time of a platform that is down.';
