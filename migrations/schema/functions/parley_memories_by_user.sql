-- How much is remembered about whom. Runs with the rights of its owner: whoever looks at it may not read what is remembered.
CREATE FUNCTION public.parley_memories_by_user()
RETURNS TABLE (user_id bigint, source text, scope text, memories bigint, newest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.user_id, m.source, m.scope, count(*), max(m.said_at) FROM public.memories AS m
    GROUP BY m.user_id, m.source, m.scope
$$;
COMMENT ON FUNCTION public.parley_memories_by_user IS 'How much is remembered about whom, by source and scope.';
REVOKE EXECUTE ON FUNCTION public.parley_memories_by_user FROM parley_app;
-- Views of admin call it with the rights of whoever looks.
GRANT EXECUTE ON FUNCTION public.parley_memories_by_user TO parley_readonly;
