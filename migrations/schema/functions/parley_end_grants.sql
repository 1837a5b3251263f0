-- Writes permissions that have ended into users, so that the table says what counts; it counts already. Returns how many.
CREATE FUNCTION public.parley_end_grants() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_ended bigint;
BEGIN
    PERFORM set_config('parley.actor', 'end of a grant', true);
    UPDATE public.users SET permission_level = permission_after, permission_until = NULL, permission_after = NULL
    WHERE permission_until <= now();
    GET DIAGNOSTICS v_ended = ROW_COUNT;
    RETURN v_ended;
END
$$;
COMMENT ON FUNCTION public.parley_end_grants IS 'Ends the permissions that were granted until a date which has passed.';
