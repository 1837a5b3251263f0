-- Adds memories that are not indexed yet to the index: rows that an admin has inserted, or whose
-- text was changed. Each row of p_rows has the memory's id, its number of words and how often each word occurs. Returns how
-- many were indexed; those that another worker has indexed meanwhile, or that were deleted, are left out.
--
-- Runs with the rights of its owner: a batch has memories of many persons.
CREATE FUNCTION public.parley_index_memories(p_rows jsonb)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_indexed bigint;
BEGIN
    -- Before the scopes, as in parley_add_memories: rows that are changed twice name them again.
    PERFORM FROM public.turns AS t
    WHERE t.id IN (
        SELECT m.turn_id FROM public.memories AS m
        WHERE m.id IN (SELECT r.id FROM jsonb_to_recordset(p_rows) AS r (id bigint))
    )
    ORDER BY t.id FOR KEY SHARE;
    PERFORM FROM public.conversations AS c
    WHERE c.id IN (
        SELECT m.conversation_id FROM public.memories AS m
        WHERE m.id IN (SELECT r.id FROM jsonb_to_recordset(p_rows) AS r (id bigint))
    )
    ORDER BY c.id FOR KEY SHARE;
    PERFORM FROM public.memory_scopes AS s
    WHERE s.id IN (
        SELECT m.scope_id FROM public.memories AS m
        WHERE m.id IN (SELECT r.id FROM jsonb_to_recordset(p_rows) AS r (id bigint))
    )
    ORDER BY s.id FOR UPDATE;
    WITH given AS MATERIALIZED (
        SELECT r.id, r.length, r.words, m.scope_id, m.said_at, m.ordinal AS present,
               m.source = 'turn' AND m.conversation_id IS NOT NULL AS is_turn,
               (m.conversation_id & 1073741823) << 31 AS first_ordinal
        FROM jsonb_to_recordset(p_rows) AS r (id bigint, length integer, words jsonb)
        JOIN public.memories AS m ON m.id = r.id AND NOT m.is_indexed
        FOR UPDATE OF m SKIP LOCKED
    ), numbered AS (
        SELECT g.*, coalesce(g.present, CASE WHEN g.is_turn THEN coalesce((
                   SELECT max(m.ordinal) FROM public.memories AS m
                   WHERE m.scope_id = g.scope_id AND m.ordinal >= g.first_ordinal
                         AND m.ordinal < g.first_ordinal + 2147483648
               ), g.first_ordinal) + row_number() OVER (PARTITION BY g.scope_id, g.first_ordinal, g.present IS NULL ORDER BY g.id)
               ELSE 4611686018427387904 + 2 * g.id END) AS ordinal
        FROM given AS g
    ), updated AS (
        UPDATE public.memories AS m
        SET is_indexed = true, ordinal = g.ordinal, turn_length = g.length, vector_model = NULL, vectors_due_at = now()
        FROM numbered AS g WHERE m.id = g.id
        RETURNING m.id, m.scope_id, m.ordinal, m.said_at, m.turn_length
    ), words AS (
        INSERT INTO public.memory_words (scope_id, term, ordinal, memory_id, tf, length, said_at)
        SELECT u.scope_id, coalesce((ts_lexize('english_stem', w.key))[1], w.key) AS term, u.ordinal, u.id,
               sum(w.value::integer), u.turn_length, u.said_at
        FROM updated AS u JOIN given AS g ON g.id = u.id CROSS JOIN jsonb_each_text(g.words) AS w
        GROUP BY u.scope_id, term, u.ordinal, u.id, u.turn_length, u.said_at
    ), counted AS (
        UPDATE public.memory_scopes AS s SET memories = s.memories + c.memories, words = s.words + c.words
        FROM (SELECT scope_id, count(*) AS memories, sum(turn_length) AS words FROM updated GROUP BY scope_id) AS c
        WHERE s.id = c.scope_id
    )
    SELECT count(*) INTO v_indexed FROM updated;
    PERFORM public.parley_measure_windows(array_agg(m.scope_id), array_agg(m.ordinal)) FROM public.memories AS m
    WHERE m.source = 'turn' AND m.id IN (SELECT r.id FROM jsonb_to_recordset(p_rows) AS r (id bigint));
    RETURN v_indexed;
END
$$;
COMMENT ON FUNCTION public.parley_index_memories IS 'Adds memories that are not indexed yet to the index of words.';
REVOKE EXECUTE ON FUNCTION public.parley_index_memories FROM parley_admin;
