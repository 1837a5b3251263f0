-- For the other functions: locks memories that are to be deleted: first their scopes, as whoever adds memories does, then the
-- rows, with their neighbours, whose windows change; each by their ids, so that nobody waits in a circle.
--
-- Runs with the rights of its owner: nobody else may lock scopes.
CREATE FUNCTION public.parley_lock_memories(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM public.memory_scopes AS s
    WHERE s.id IN (SELECT m.scope_id FROM public.memories AS m WHERE m.id = ANY (p_ids)) ORDER BY s.id FOR UPDATE;
    PERFORM FROM public.memories AS m
    WHERE m.id = ANY (p_ids) OR m.id IN (
        SELECT around.id FROM public.memories AS gone JOIN public.memories AS around
            ON around.scope_id = gone.scope_id AND around.ordinal IN (gone.ordinal - 1, gone.ordinal + 1)
        WHERE gone.id = ANY (p_ids)
    )
    ORDER BY m.id FOR UPDATE;
END
$$;
COMMENT ON FUNCTION public.parley_lock_memories IS
    'For the other functions: locks memories that are to be deleted, in the order in which others add and change them.';
REVOKE EXECUTE ON FUNCTION public.parley_lock_memories FROM parley_admin;
