-- Records that the delivery of a reply failed: it is tried again after a pause, until it is `p_hours` old, or with
-- `p_is_final` never. No effect when the claim with the number `p_attempts` is not the latest.
--
-- The pause doubles from two seconds to a minute and varies by half, so that processes don't come back together; a
-- longer one that the platform asks for (`p_wait`) is obeyed.
--
-- With `p_scope` the platform itself did not answer. When that happens in two places with no success between them, it is
-- down: one reply at a time asks whether it is back. A platform that fails in one place alone is not.
CREATE FUNCTION public.parley_fail_reply(
    p_id bigint, p_attempts integer, p_error text, p_is_final boolean, p_wait double precision, p_hours double precision,
    p_scope text
)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_reply public.outbox;
BEGIN
    UPDATE public.outbox SET error = p_error, lost_seconds = 0, tried_at = now(),
        status = CASE WHEN p_is_final OR created_at < now() - p_hours * interval '1 hour' THEN 'failed'
                      ELSE 'pending' END,
        claimed_until = CASE WHEN NOT p_is_final THEN now() + interval '1 second' * greatest(
            p_wait, least(60, 2 * 2 ^ least(attempts, 10)) * (0.5 + random() / 2)
        ) END
    WHERE id = p_id AND status = 'claimed' AND attempts = p_attempts
    RETURNING * INTO v_reply;
    IF v_reply.id IS NULL OR p_scope IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO public.delivery_outages AS outage (adapter, scope, place_key, error, next_probe_at)
    VALUES (v_reply.adapter, p_scope, v_reply.place_key, p_error, now() + interval '2 seconds')
    ON CONFLICT (adapter, scope) DO UPDATE SET
        is_down = outage.is_down OR outage.place_key <> excluded.place_key, error = excluded.error,
        failures = outage.failures + 1,
        next_probe_at = now() + interval '1 second' * (
            least(60, 2 * 2 ^ least(outage.failures, 10)) * (0.5 + random() / 2)
        );
END
$$;
COMMENT ON FUNCTION public.parley_fail_reply IS
    'Records a failed delivery, when it is tried again, and whether its platform is down.';
