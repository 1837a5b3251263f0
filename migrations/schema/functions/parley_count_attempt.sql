-- Counts that somebody has come to a way of signing in, and tells whether they may still: p_most times in a period.
CREATE FUNCTION public.parley_count_attempt(p_door text, p_visitor text, p_most integer, p_seconds integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_begin timestamptz := now() - make_interval(secs => p_seconds);
    v_attempts integer;
BEGIN
    DELETE FROM public.login_attempts WHERE began_at < now() - interval '1 day';
    INSERT INTO public.login_attempts AS attempt (door, visitor) VALUES (p_door, p_visitor)
    ON CONFLICT (door, visitor) DO UPDATE SET
        attempts = CASE WHEN attempt.began_at < v_begin THEN 1 ELSE attempt.attempts + 1 END,
        began_at = CASE WHEN attempt.began_at < v_begin THEN now() ELSE attempt.began_at END
    RETURNING attempts INTO v_attempts;
    RETURN v_attempts <= p_most;
END
$$;
COMMENT ON FUNCTION public.parley_count_attempt IS 'Counts an attempt to sign in; returns whether it is within the limit.';
REVOKE EXECUTE ON FUNCTION public.parley_count_attempt FROM parley_admin;
