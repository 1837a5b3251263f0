-- The reply begins anew, with the whole time in which a delivery is tried. Its claims are counted on: a sender that wakes up late
-- knows by the number that another has the reply. All of them are a thousand at most, because each is an entry of the log of
-- changes, for which other admins wait.
CREATE FUNCTION admin.retry_replies(reply bigint DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_status text;
    v_count bigint;
    v_rest bigint;
BEGIN
    UPDATE public.outbox SET status = 'pending', lost_seconds = 0, created_at = now(), claimed_until = NULL
    WHERE status = 'failed' AND id IN (
        SELECT failed.id FROM public.outbox AS failed
        WHERE failed.status = 'failed' AND (reply IS NULL OR failed.id = reply) ORDER BY failed.id LIMIT 1000
    );
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF reply IS NULL THEN
        v_rest := (SELECT count(*) FROM public.outbox WHERE status = 'failed');
        RETURN format('%s replies are sent again', v_count) || CASE WHEN v_rest > 0 THEN format(', %s are left', v_rest) ELSE '' END;
    ELSIF v_count = 0 THEN
        v_status := (SELECT status FROM public.outbox WHERE id = reply);
        IF v_status IS NULL THEN
            RAISE EXCEPTION 'there is no reply %', reply;
        END IF;
        RAISE EXCEPTION 'the reply % has not failed: it is %', reply, v_status;
    END IF;
    RETURN format('the reply %s is sent again', reply);
END
$$;
COMMENT ON FUNCTION admin.retry_replies IS
    'Sends a reply again that failed, or without a number the oldest thousand: admin.retry_replies(17).';
