-- Memories that are not in the index yet: rows that an admin has inserted, or whose text was changed.
-- Runs with the rights of its owner: they are of many persons.
CREATE FUNCTION public.parley_unindexed_memories(p_limit integer)
RETURNS TABLE (memory_id bigint, said_at timestamptz, content text)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.id, m.said_at, m.content FROM public.memories AS m WHERE NOT m.is_indexed ORDER BY m.id LIMIT p_limit
$$;
COMMENT ON FUNCTION public.parley_unindexed_memories IS 'Memories that are not in the index of words yet.';
REVOKE EXECUTE ON FUNCTION public.parley_unindexed_memories FROM parley_admin;
