-- How many memories there are, and how many of them lack vectors of this model.
-- Runs with the rights of its owner: they are of all persons.
CREATE FUNCTION public.parley_vectors_progress(p_model text)
RETURNS TABLE (memories bigint, missing bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT sum(s.memories) FROM public.memory_scopes AS s), 0)::bigint,
           (SELECT count(*) FROM public.memories AS m WHERE m.vector_model IS NULL)
           + (SELECT count(*) FROM public.memories AS m WHERE m.vector_model < p_model)
           + (SELECT count(*) FROM public.memories AS m WHERE m.vector_model > p_model)
$$;
COMMENT ON FUNCTION public.parley_vectors_progress IS
    'How many memories there are, and how many of them lack vectors of this embedding model.';
REVOKE EXECUTE ON FUNCTION public.parley_vectors_progress FROM parley_admin;
