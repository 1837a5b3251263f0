-- Lets the vectors of this model answer in the scopes in which no memory lacks them, and removes those of other models there;
-- returns in how many scopes, p_limit at most. Until then the vectors of the model before answer.
-- Runs with the rights of its owner: they are scopes of many persons.
CREATE FUNCTION public.parley_switch_vectors(p_model text, p_limit integer)
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH complete AS (
        SELECT s.id FROM public.memory_scopes AS s
        WHERE s.vector_model IS DISTINCT FROM p_model AND s.memories > 0 AND NOT EXISTS (
            SELECT FROM public.memories AS m
            WHERE m.scope_id = s.id AND m.is_indexed AND m.vector_model IS DISTINCT FROM p_model
        )
        LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED
    ), switched AS (
        UPDATE public.memory_scopes AS s SET vector_model = p_model FROM complete AS c WHERE s.id = c.id RETURNING s.id
    ), removed AS (
        DELETE FROM public.memory_vectors AS v USING switched AS s WHERE v.scope_id = s.id AND v.model <> p_model
    )
    SELECT count(*) FROM switched
$$;
COMMENT ON FUNCTION public.parley_switch_vectors IS
    'Lets the vectors of this model answer in the scopes where they are complete, and removes those of other models there.';
REVOKE EXECUTE ON FUNCTION public.parley_switch_vectors FROM parley_admin;
