-- Locks a person's limits, as parley_lock_limits does; returns whether there is such a person.
CREATE FUNCTION public.parley_lock_user(p_user_id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || p_user_id, 0));
    PERFORM FROM public.users WHERE id = p_user_id FOR NO KEY UPDATE;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION public.parley_lock_user IS 'For the other functions: locks a person''s limits before they are changed.';
