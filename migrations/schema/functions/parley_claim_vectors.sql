-- Ids of memories that lack vectors of this embedding model; for two minutes no other worker gets them.
-- Runs with the rights of its owner: they are of many persons.
--
-- The three conditions are three ranges of one index; a single one with <> would read the whole table.
CREATE FUNCTION public.parley_claim_vectors(p_model text, p_limit integer)
RETURNS TABLE (memory_id bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH without AS (
        SELECT m.id FROM public.memories AS m
        WHERE m.vector_model IS NULL AND m.vectors_due_at <= now() AND m.is_indexed
        LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED
    ), of_models_before AS (
        SELECT m.id FROM public.memories AS m
        WHERE m.vector_model < p_model AND m.vectors_due_at <= now() AND m.is_indexed
        LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED
    ), of_models_after AS (
        SELECT m.id FROM public.memories AS m
        WHERE m.vector_model > p_model AND m.vectors_due_at <= now() AND m.is_indexed
        LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED
    ), due AS (
        SELECT id FROM without UNION ALL SELECT id FROM of_models_before UNION ALL SELECT id FROM of_models_after
        LIMIT p_limit
    )
    UPDATE public.memories AS m SET vectors_due_at = now() + interval '2 minutes'
    FROM due WHERE m.id = due.id
    RETURNING m.id
$$;
COMMENT ON FUNCTION public.parley_claim_vectors IS
    'Ids of memories that lack vectors of this embedding model; for two minutes no other worker gets them.';
REVOKE EXECUTE ON FUNCTION public.parley_claim_vectors FROM parley_admin;
