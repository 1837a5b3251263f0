-- How much is remembered about whom. Runs with the rights of its owner: whoever looks at it may not read what is remembered.
CREATE FUNCTION public.parley_memories_by_user_v1()
RETURNS TABLE (user_id bigint, source text, scope text, memories bigint, newest timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.user_id, m.source, m.scope, count(*), max(m.said_at) FROM public.memories AS m
    GROUP BY m.user_id, m.source, m.scope
$$;
COMMENT ON FUNCTION public.parley_memories_by_user_v1 IS 'How much is remembered about whom, by source and scope.';
