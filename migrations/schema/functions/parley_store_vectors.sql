-- Stores vectors of memories, and returns how many dimensions the vectors of this model have: with other ones than
-- p_dimensions nothing is stored, because they could not be compared. A memory that was deleted, or whose text or
-- neighbours have changed since its texts were read, is left out: no vector stays of a text that is gone.
--
-- p_ids, p_kinds, p_versions, p_vectors: one entry for each vector; the version is that of parley_texts_to_embed.
-- p_refused: memories whose texts the model does not accept; they are found by words, and are not tried again.
--
-- Runs with the rights of its owner: a batch has memories of many persons.
CREATE FUNCTION public.parley_store_vectors(
    p_model text, p_dimensions integer, p_ids bigint[], p_kinds text[], p_versions bigint[], p_vectors text[],
    p_refused bigint[]
)
RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_catalog, pg_temp AS $$
DECLARE
    v_dimensions integer;
BEGIN
    SELECT e.dimensions INTO v_dimensions FROM public.embedding_models AS e WHERE e.model = p_model;
    IF NOT FOUND AND p_dimensions IS NOT NULL THEN
        INSERT INTO public.embedding_models (model, dimensions) VALUES (p_model, p_dimensions) ON CONFLICT DO NOTHING;
        SELECT e.dimensions INTO v_dimensions FROM public.embedding_models AS e WHERE e.model = p_model;
    END IF;
    IF v_dimensions <> p_dimensions THEN
        RETURN v_dimensions;
    END IF;

    -- Before the memories, as everywhere: the scopes that get their first vector.
    PERFORM FROM public.memory_scopes AS s
    WHERE s.vector_model IS NULL AND s.id IN (SELECT m.scope_id FROM public.memories AS m WHERE m.id = ANY (p_ids))
    ORDER BY s.id FOR NO KEY UPDATE;
    -- Whoever changes a text or a neighbour changes these rows, too; what they have committed is seen by the next statement.
    PERFORM FROM public.memories AS m WHERE m.id = ANY (p_ids || p_refused) ORDER BY m.id FOR NO KEY UPDATE;
    WITH given AS (
        SELECT * FROM unnest(p_ids, p_kinds, p_versions, p_vectors) AS g (id, kind, version, vector)
    ), present AS MATERIALIZED (
        SELECT m.id AS memory_id, m.user_id, m.scope_id,
               hashtextextended(jsonb_build_array(b.content, m.content, a.content)::text, 0) AS version
        FROM public.memories AS m
        LEFT JOIN public.memories AS b ON b.scope_id = m.scope_id AND b.ordinal = m.ordinal - 1
        LEFT JOIN public.memories AS a ON a.scope_id = m.scope_id AND a.ordinal = m.ordinal + 1
        WHERE m.id = ANY (p_ids) AND m.is_indexed
    ), stored AS (
        INSERT INTO public.memory_vectors (user_id, scope_id, model, kind, memory_id, embedding)
        SELECT p.user_id, p.scope_id, p_model, g.kind, g.id, g.vector::halfvec
        FROM given AS g JOIN present AS p ON p.memory_id = g.id AND p.version = g.version
        ON CONFLICT (memory_id, model, kind) DO UPDATE SET embedding = excluded.embedding
        RETURNING memory_id, scope_id
    ), first_ones AS (
        UPDATE public.memory_scopes AS s SET vector_model = p_model
        WHERE s.vector_model IS NULL AND s.id IN (SELECT scope_id FROM stored)
    )
    UPDATE public.memories AS m SET vector_model = p_model
    WHERE m.id IN (SELECT memory_id FROM stored) OR m.id = ANY (p_refused);
    RETURN v_dimensions;
END
$$;
COMMENT ON FUNCTION public.parley_store_vectors IS
    'Stores vectors of memories, and returns how many dimensions the vectors of this model have; with others, none is stored.';
REVOKE EXECUTE ON FUNCTION public.parley_store_vectors FROM parley_admin;
