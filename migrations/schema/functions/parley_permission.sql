-- The permission that somebody has at this moment: one that was granted until a date ends by itself.
CREATE FUNCTION public.parley_permission(p_level text, p_until timestamptz, p_after text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_until <= now() THEN p_after ELSE p_level END
$$;
COMMENT ON FUNCTION public.parley_permission IS 'The permission of a person now: permission_after once permission_until has passed.';
-- Views of admin call it with the rights of whoever looks.
GRANT EXECUTE ON FUNCTION public.parley_permission TO parley_readonly;
