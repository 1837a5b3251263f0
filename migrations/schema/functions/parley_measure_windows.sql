-- Counts the words of the windows around these messages again, after one was added, changed or deleted, and removes the
-- vectors of those windows, so that no vector is left of a text that is gone.
CREATE FUNCTION public.parley_measure_windows(p_scope_ids bigint[], p_ordinals bigint[])
RETURNS void
LANGUAGE sql AS $$
    WITH around AS MATERIALIZED (
        SELECT DISTINCT m.id, m.scope_id, m.ordinal, m.turn_length
        FROM unnest(p_scope_ids, p_ordinals) AS g (scope_id, ordinal)
        CROSS JOIN generate_series(-1, 1) AS step
        JOIN public.memories AS m ON m.scope_id = g.scope_id AND m.ordinal = g.ordinal + step AND m.is_indexed
    ), measured AS (
        SELECT a.id, a.turn_length + sum(m.turn_length) AS length
        FROM around AS a
        LEFT JOIN public.memories AS m
            ON m.scope_id = a.scope_id AND m.ordinal IN (a.ordinal - 1, a.ordinal + 1) AND m.is_indexed
        GROUP BY a.id, a.turn_length
    ), removed AS (
        DELETE FROM public.memory_vectors AS v USING around AS a WHERE v.memory_id = a.id AND v.kind = 'window'
    )
    UPDATE public.memories AS m SET window_length = d.length, vector_model = NULL
    FROM measured AS d WHERE m.id = d.id
$$;
COMMENT ON FUNCTION public.parley_measure_windows IS 'Counts the words of memories with their neighbours anew.';
