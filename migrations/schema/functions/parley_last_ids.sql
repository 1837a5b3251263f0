-- The last id that each sequence has given out.
CREATE FUNCTION public.parley_last_ids() RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_object_agg(sequencename, coalesce(last_value, 0)) FROM pg_sequences WHERE schemaname = 'public'
$$;
COMMENT ON FUNCTION public.parley_last_ids IS 'The last id that each sequence has given out.';
REVOKE EXECUTE ON FUNCTION public.parley_last_ids FROM parley_app, parley_admin;
