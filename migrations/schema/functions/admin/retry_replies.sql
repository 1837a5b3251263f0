-- The reply begins anew, with the whole time in which a delivery is tried.
CREATE FUNCTION admin.retry_replies(reply bigint DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_status text := (SELECT status FROM public.outbox WHERE id = reply);
    v_count bigint;
BEGIN
    IF reply IS NOT NULL AND v_status IS NULL THEN
        RAISE EXCEPTION 'there is no reply %', reply;
    ELSIF v_status <> 'failed' THEN
        RAISE EXCEPTION 'the reply % has not failed: it is %', reply, v_status;
    END IF;
    UPDATE public.outbox SET status = 'pending', attempts = 0, lost_seconds = 0, created_at = now(), claimed_until = NULL
    WHERE status = 'failed' AND (reply IS NULL OR id = reply);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN CASE WHEN reply IS NULL THEN format('%s replies are sent again', v_count) ELSE format('the reply %s is sent again', reply) END;
END
$$;
COMMENT ON FUNCTION admin.retry_replies IS 'Sends a reply again that failed, or without a number all of them: admin.retry_replies(17).';
